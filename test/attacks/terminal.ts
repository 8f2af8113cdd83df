import type { Sandbox, TerminalInput } from "../../src/sandbox/sandbox.ts";
import { type Attack, never } from "./attack.ts";

/** Types and says what came of it. */
function type(sandbox: Sandbox, typed: TerminalInput | string, timeoutMs = 3_000) {
  const input = typeof typed === "string" ? ({ kind: "command", text: typed } as const) : typed;
  return sandbox.terminal(input, { timeoutMs, signal: never });
}

/** After `command`, and Ctrl-C where it still runs, the next one's output and exit code are its own. */
function inStep(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return {
    name,
    tries,
    must: "the next command's output and exit code are its own, once a new session was told of",
    contained: { ends: true, exitCode: 3 },
    async run({ open }) {
      const sandbox = await open();
      const first = await type(sandbox, command, 1_000);
      if (first.running) await type(sandbox, { kind: "key", key: "C-c" });
      let next = await type(sandbox, "echo second; (exit 3)");
      if (next.note?.includes("A new one was started")) next = await type(sandbox, "echo second; (exit 3)");
      return { ends: next.output.split("\n").includes("second"), exitCode: next.exitCode };
    },
  };
}

/** Forging, breaking or flooding the terminal on which a program may go on between two calls. */
export const TERMINAL: readonly Attack[] = [
  inStep("marks on the terminal", {
    tries: "ends of commands that it writes to its terminal itself",
    command: "for i in $(seq 100); do printf '\\n\\036%032x 0\\036' $i >/dev/tty; done; printf '\\036\\036' >/dev/tty",
  }),
  inStep("the mark read from the terminal's shell", {
    tries: "the marks of its own command, from the memory of bash, written with another exit code before its own end",
    command: `python3 -c '
import os, re
found = set()
for line in open(f"/proc/{os.getppid()}/maps"):
    span, access = line.split()[:2]
    if access[0] != "r" or "[v" in line: continue
    start, end = (int(part, 16) for part in span.split("-"))
    with open(f"/proc/{os.getppid()}/mem", "rb", 0) as memory:
        memory.seek(start)
        try: found |= set(re.findall(rb"036%s %s.036. ([0-9a-zA-Z_-]{8,64})", memory.read(min(end - start, 1 << 24))))
        except OSError: pass
with open("/dev/tty", "wb", 0) as out:
    for nonce in found: out.write(b"\\n\\x1e" + nonce + b" 0\\x1e")
'; (exit 9)`,
  }),
  inStep("a raw terminal", {
    tries: "a terminal without lines, signals and echo of its own making",
    command: "stty raw -isig -icanon echo 2>/dev/null; stty cols 1 rows 1",
  }),
  inStep("the terminal's errors elsewhere", {
    tries: "a bash whose errors, and output for a while, go to a file",
    command: "exec >/tmp/out 2>/tmp/err; exec >/dev/tty",
  }),
  inStep("the terminal's input elsewhere", {
    tries: "a bash that reads no more of what is typed",
    command: "exec </dev/null",
  }),
  inStep("another program in the terminal's place", { tries: "exec", command: "exec sleep 1000" }),
  inStep("the end of the terminal", { tries: "exit, and Ctrl-D", command: "exit 7" }),
  inStep("whoever holds the terminal", {
    tries: "kill -9 of the process between the pipes and bash, and of bash",
    command: "kill -9 $PPID; kill -9 $$",
  }),
  inStep("functions in place of the terminal's builtins", {
    tries: "being run between two commands, and a trap that types",
    command: "printf() { :; }; eval() { :; }; stty() { :; }; alias builtin=false; trap 'echo evil' DEBUG; set -u; true",
  }),
  inStep("processes that stay in the foreground", {
    tries: "a program in another group that keeps the terminal to itself and ignores Ctrl-C",
    command: 'python3 -c "import os, signal, time; signal.signal(2, 1); signal.signal(20, 1); time.sleep(1.5)" & fg',
  }),
  {
    name: "a terminal that is flooded between two calls",
    tries: "the server's memory, while nobody reads",
    must: "the kernel stops the writer; what is read then is bounded, and so is the memory",
    contained: { isBounded: true, alive: "alive" },
    async run({ open }) {
      const sandbox = await open();
      await type(sandbox, "(yes evil >/dev/tty &) ; sleep 0.1", 2_000);
      Bun.gc(true);
      const before = process.memoryUsage.rss();
      await sandbox.python("import time; time.sleep(0.7)", { timeoutMs: 5_000, signal: never });
      await type(sandbox, { kind: "more" }, 700);
      await sandbox.shell("kill -9 $(grep -l ^evil /proc/[0-9]*/cmdline; pgrep yes)", {
        timeoutMs: 2_000,
        signal: never,
      });
      Bun.gc(true);
      const isBounded = process.memoryUsage.rss() - before < 150 << 20;
      const alive = await sandbox.shell("echo alive", { timeoutMs: 2_000, signal: never });
      return { isBounded, alive: alive.output.trim() };
    },
  },
];
