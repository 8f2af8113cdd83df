import { type Attack, never, py, SMALL, sh } from "./attack.ts";

/** After `attack`, a neighbour works as if nothing was, and what the attack said is as told. */
export function bounded(
  name: string,
  parts: { tries: string; must: string; contained: unknown; attack: (box: Attacked) => Promise<unknown> },
): Attack {
  const { tries, must, contained, attack } = parts;
  return {
    name,
    tries,
    must: `${must}; a neighbour is undisturbed`,
    contained: { said: contained, neighbour: "undisturbed\n1" },
    async run({ open }) {
      const [neighbour, sandbox] = [await open(), await open()];
      const said = await attack({ sh: (command) => sh(sandbox, command), py: (code) => py(sandbox, code), sandbox });
      return { said, neighbour: await sh(neighbour, "echo undisturbed; echo 1 > f && /bin/cat f") };
    },
  };
}

export interface Attacked {
  sh: (command: string) => Promise<string>;
  py: (code: string) => Promise<string>;
  sandbox: Awaited<ReturnType<Parameters<Attack["run"]>[0]["open"]>>;
}

const FILL = (folder: string) => `head -c 10G /dev/zero > ${folder}/big 2>/dev/null; stat -c %s ${folder}/big`;
const withinDisk = (said: string) => Number(said) > 0 && Number(said) <= SMALL.diskBytes;

/** How much the server's memory grew, in MiB, while `work` ran. */
async function growth(work: () => Promise<unknown>): Promise<number> {
  Bun.gc(true);
  const before = process.memoryUsage.rss();
  await work();
  Bun.gc(true);
  return (process.memoryUsage.rss() - before) / (1 << 20);
}

function output(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return bounded(name, {
    tries,
    must: "the server's memory stays flat",
    contained: true,
    attack: async ({ sandbox }) =>
      (await growth(() => sandbox.shell(command, { timeoutMs: 20_000, signal: never }))) < 150,
  });
}

/** Using up what others need. */
export const RESOURCES: readonly Attack[] = [
  bounded("a full disk", {
    tries: "10 GB below /tmp",
    must: "the sandbox's own size is the end",
    contained: true,
    attack: async ({ sh }) => withinDisk(await sh(FILL("/tmp"))),
  }),
  bounded("a full /dev/shm", {
    tries: "10 GB of shared memory",
    must: "it counts as disk",
    contained: true,
    attack: async ({ sh }) => withinDisk(await sh(FILL("/dev/shm"))),
  }),
  bounded("inodes", {
    tries: "a million empty folders, each 1 kB of kernel memory",
    must: "ENOSPC at the bound, in all places together",
    contained: "True",
    attack: ({ py }) =>
      py(`
import os
made = 0
for folder in ("/tmp", "/dev/shm", "/workspace", "/run", "/root"):
    for i in range(200_000):
        try: os.mkdir(f"{folder}/{i}")
        except OSError: break
        made += 1
print(90_000 < made <= ${SMALL.inodesMax})`),
  }),
  bounded("a sparse file", {
    tries: "a file of 1 PB that takes no room, to be read by the server",
    must: "EFBIG",
    contained: "EFBIG",
    attack: ({ py }) =>
      py(`
import errno, os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with open("/tmp/sparse", "w") as file:
    try: os.ftruncate(file.fileno(), 1 << 50); print("made")
    except OSError as error: print(errno.errorcode[error.errno])`),
  }),
  bounded("memory", {
    tries: "4 GB in one process",
    must: "MemoryError or a kill inside the sandbox",
    contained: true,
    attack: async ({ sandbox }) => {
      const result = await sandbox.python("x = b'x' * (4 << 30)", { timeoutMs: 20_000, signal: never });
      return result.output.includes("MemoryError") || result.note !== null;
    },
  }),
  bounded("descriptors", {
    tries: "a million open files",
    must: "EMFILE at the bound",
    contained: "True",
    attack: ({ py }) =>
      py(`
import os
held = []
try:
    while True: held.append(os.open("/dev/null", os.O_RDONLY))
except OSError as error: print(error.errno == 24 and len(held) <= ${SMALL.openFilesMax})
for each in held: os.close(each)`),
  }),
  bounded("processes", {
    tries: "more processes than pids_max",
    must: "EAGAIN at the bound",
    contained: "True",
    attack: ({ py }) =>
      py(`
import os, signal, time
made = []
try:
    while len(made) < 5000:
        pid = os.fork()
        if pid == 0: time.sleep(1000)
        made.append(pid)
except OSError: pass
print(10 < len(made) < ${SMALL.pidsMax + 12})
for each in made: os.kill(each, 9); os.waitpid(each, 0)`),
  }),
  bounded("message queues", {
    tries: "kernel memory in POSIX queues",
    must: "none can be made",
    contained: "refused",
    attack: ({ py }) =>
      py(`
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
try: made = libc.mq_open(b"/q", 0o102, 0o600, None)
except AttributeError: made = ctypes.CDLL("librt.so.1", use_errno=True).mq_open(b"/q", 0o102, 0o600, None)
print("made" if made >= 0 else "refused")`),
  }),
  bounded("locked memory", {
    tries: "memory that cannot be swapped",
    must: "refused",
    contained: "refused",
    attack: ({ py }) =>
      py(`
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
page = ctypes.create_string_buffer(1 << 20)
print("locked" if libc.mlock(page, 1 << 20) == 0 else "refused")`),
  }),
  output("1 GB of output", { tries: "the server's memory", command: "head -c 1G /dev/zero | tr '\\0' x" }),
  output("10 million tiny writes", {
    tries: "an object of the server for each",
    command: "dd if=/dev/zero bs=1 count=10000000 2>/dev/null",
  }),
  output("a line without an end", {
    tries: "a buffer that waits for its newline",
    command: "head -c 300M /dev/zero | tr '\\0' ' '",
  }),
  output("marks without an end", {
    tries: "a parser that looks for marks",
    command: "head -c 100M /dev/zero | tr '\\0' '\\036'",
  }),
  bounded("output that nobody reads", {
    tries: "writing between two commands",
    must: "the kernel stops the writer",
    contained: true,
    attack: async ({ sh, py }) => {
      await sh("(yes > /proc/$$/fd/9 &) ; sleep 0.1");
      return (await growth(() => py("import time; time.sleep(0.5)"))) < 50;
    },
  }),
  bounded("news from PID 1", {
    tries: "flooding the pipe on which PID 1 speaks to the server",
    must: "the sandbox ends, as its own doing",
    contained: "limit",
    attack: async ({ sandbox }) => {
      await sandbox.shell("yes up > /proc/1/fd/1", { timeoutMs: 10_000, signal: never }).catch(() => null);
      return sandbox.ended;
    },
  }),
  bounded("processor time", {
    tries: "as many busy loops as it may have processes, in the background",
    must: "the command ends in its time",
    contained: true,
    attack: async ({ sandbox }) => {
      const busy = "for i in $(seq 40); do while :; do :; done & done; wait";
      const { ms } = await sandbox.shell(busy, { timeoutMs: 1_000, signal: never });
      return ms < 10_000;
    },
  }),
  bounded("deep folders", {
    tries: "a path of 4,096 components, which a reader that recurses does not survive",
    must: "the server reads on",
    contained: null,
    attack: async ({ py, sandbox }) => {
      await py(`
import os
os.chdir("/workspace")
for _ in range(4096):
    os.mkdir("d"); os.chdir("d")
open("file", "w").close()`);
      return sandbox.readFile(`/workspace/${"d/".repeat(4096)}file`, 1_000);
    },
  }),
  bounded("inotify", {
    tries: "all watchers that the sandboxes' user may have",
    must: "a neighbour still gets one",
    contained: true,
    attack: async ({ py, sandbox }) => {
      const code = `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
made = 0
while made < 100_000 and libc.inotify_init1(0) >= 0: made += 1
print(made)`;
      const made = Number(await py(code));
      return made < 100 && sandbox !== null;
    },
  }),
  bounded("a folder of many names", {
    tries: "90,000 names of 250 bytes, listed by the server",
    must: "the server lists a part, and does not stop for long",
    contained: { names: 200, more: true, isQuick: true },
    attack: async ({ py, sandbox }) => {
      await py(`
import os
os.mkdir("/workspace/many")
for i in range(90_000): os.mkdir("/workspace/many/" + str(i).zfill(250))`);
      const startedMs = performance.now();
      const listed = await sandbox.listFolder("/workspace/many", 200);
      const isQuick = performance.now() - startedMs < 3_000;
      return { names: listed?.names.length, more: listed?.more, isQuick };
    },
  }),
];
