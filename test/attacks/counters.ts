import { type Attack, never, py, sh } from "./attack.ts";
import { bounded } from "./resources.ts";

/** Using up what the kernel counts for a user, or for the whole machine, over all sandboxes. */
export const COUNTERS: readonly Attack[] = [
  {
    name: "pseudo-terminals",
    tries: "all 3,072 that sandboxes together may have, so that others get no terminal",
    must: "few can be opened; a neighbour's terminal starts",
    contained: { isFew: true, neighbour: "works\n" },
    async run({ open }) {
      const [neighbour, sandbox] = [await open(), await open()];
      const made = await py(
        sandbox,
        `
import os
held = []
try:
    while len(held) < 4000: held.append(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY))
except OSError: pass
print(len(held))`,
      );
      const typed = { kind: "command", text: "echo works" } as const;
      const { output } = await neighbour.terminal(typed, { timeoutMs: 10_000, signal: never });
      return { isFew: Number(made) > 0 && Number(made) < 100, neighbour: output };
    },
  },
  {
    name: "pages of pipes",
    tries: "64 MiB in pipes, after which the same user's pipes shrink: those to a neighbour that starts then, too",
    must: "a neighbour takes long commands and cells as ever",
    contained: { shell: "12000", python: "12000" },
    async run({ open }) {
      const sandbox = await open();
      await py(sandbox, "import os\nheld = [os.pipe() for _ in range(1500)]");
      const neighbour = await open();
      const text = "y".repeat(12_000);
      return {
        shell: await sh(neighbour, `x=${text}; echo \${#x}`),
        python: await py(neighbour, `print(len("${text}"))`),
      };
    },
  },
  bounded("timers", {
    tries: "kernel memory in timers",
    must: "EAGAIN at the bound",
    contained: "True",
    attack: ({ py }) =>
      py(`
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
made, timer = 0, ctypes.c_void_p()
while made < 100_000 and libc.syscall(ctypes.c_long(${process.arch === "arm64" ? 107 : 222}), ctypes.c_long(1), None, ctypes.byref(timer)) == 0: made += 1
print(0 < made <= 1100)`),
  }),
  bounded("semaphores and segments of System V", {
    tries: "as many as its namespace may have",
    must: "less than 400 MB of kernel memory are taken",
    contained: "True",
    attack: ({ py }) =>
      py(`
import ctypes
libc = ctypes.CDLL(None)
def free(): return int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemAvailable")))
before, sets = free(), 0
while sets < 40_000 and libc.semget(0, 32, 0o1600) >= 0: sets += 1
print(sets <= 32_000 and before - free() < 400_000)`),
  }),
];
