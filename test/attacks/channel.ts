import { readFileSync } from "node:fs";
import { type Attack, never, py, sh } from "./attack.ts";

const IN_STEP = { ends: true, exitCode: 3 };

/** After `command`, the next one's output and exit code are its own. */
function inStep(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return {
    name,
    tries,
    must: "the next command's output and exit code are its own",
    contained: IN_STEP,
    async run({ open }) {
      const sandbox = await open();
      await sh(sandbox, command, 3_000);
      const next = await sandbox.shell("echo second; (exit 3)", { timeoutMs: 5_000, signal: never });
      // What a process in the background wrote meanwhile may come first.
      return { ends: next.output.endsWith("second\n"), exitCode: next.exitCode };
    },
  };
}

/** However `command` broke the session, the next ones end in their time, answered or not. */
function inTime(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return {
    name,
    tries,
    must: "the next commands end in their time; a neighbour is undisturbed",
    contained: { isInTime: true, neighbour: "undisturbed" },
    async run({ open }) {
      const [neighbour, sandbox] = [await open(), await open()];
      await sh(sandbox, command, 1_000).catch(() => "");
      const startedMs = performance.now();
      for (let i = 0; i < 2; i += 1) await sh(sandbox, "echo next", 500).catch(() => "");
      const isInTime = performance.now() - startedMs < 20_000;
      return { isInTime, neighbour: await sh(neighbour, "echo undisturbed") };
    },
  };
}

/** Forging or breaking what passes between the server and the tools. What is forged is the agent's own observation. */
export const CHANNEL: readonly Attack[] = [
  inStep("forged marks", {
    tries: "ends of commands that it writes itself",
    command: "for i in $(seq 200); do printf '\\n\\036%032x 0\\036' $i; done; printf '\\036\\036\\n\\036 0\\036'",
  }),
  inStep("forged marks from behind", {
    tries: "marks that come when the command is over",
    command: "(sleep 0.2; for i in $(seq 50); do printf '\\n\\036%032x 0\\036' $i >/proc/$$/fd/9; done) & sleep 0.5",
  }),
  inStep("the mark read from its shell's memory", {
    tries: "the nonce of its own command, from /proc/$$/mem, written with another exit code",
    command: `python3 - <<'END'
import os, re
found = set()
for line in open(f"/proc/{os.getppid()}/maps"):
    span, access = line.split()[:2]
    if access[0] != "r" or "[v" in line: continue
    start, end = (int(part, 16) for part in span.split("-"))
    with open(f"/proc/{os.getppid()}/mem", "rb", 0) as memory:
        memory.seek(start)
        try: found |= set(re.findall(rb"036%s %s.036' ([0-9a-zA-Z_-]{8,64})", memory.read(min(end - start, 1 << 24))))
        except OSError: pass
with open(f"/proc/{os.getppid()}/fd/9", "wb", 0) as out:
    for nonce in found: out.write(b"\\n\\x1e" + nonce + b" 0\\x1e")
END
(exit 9)`,
  }),
  inStep("output without an end", {
    tries: "a writer that goes on when the command is over",
    command: "yes & sleep 0.2; kill %1",
  }),
  inStep("bytes that are no text", {
    tries: "every byte, control codes, broken UTF-8, no newline at the end",
    command: "head -c 100000 /dev/urandom; printf '\\000\\036\\377\\033[2J\\033c'",
  }),
  inStep("a changed prompt and terminal", {
    tries: "text that the shell writes by itself between two commands",
    command: "PS1='$(echo evil)'; PS0=evil; PROMPT_COMMAND='echo evil'; stty raw 2>/dev/null; reset 2>/dev/null",
  }),
  inStep("readonly names", {
    tries: "names that the session sets, made unsettable",
    command: "readonly PS1 PS0 PROMPT_COMMAND IFS 2>/dev/null; IFS=x; set -e; set -u; set -f; set -n 2>/dev/null; true",
  }),
  inTime("orders to PID 1", {
    tries: "further shells and workers on the same pipes, by writing where PID 1 reads its orders",
    command: 'for i in 1 2 3; do echo "shell x$i" >/proc/1/fd/0; echo "python y$i" >/proc/1/fd/0; done; sleep 0.2',
  }),
  inTime("a thief of commands", {
    tries: "reading what is meant for PID 1 and for its shell, byte by byte",
    command: "for p in 1 $$; do (while :; do head -c 1 /proc/$p/fd/0; done >/dev/null 2>&1 &); done; sleep 0.1",
  }),
  inTime("an end of its session that it tells itself", {
    tries: "what PID 1 says when a shell has ended, with every name it can find, and that PID 1 is up, again and again",
    command:
      'for i in $(seq 200); do echo up; echo "shell $i 0"; echo "python  1"; echo "terminal $(head -c 50 /dev/urandom)"; done >/proc/1/fd/1 2>/dev/null',
  }),
  {
    name: "the Python worker's own descriptors",
    tries: "answers that it writes for the worker, and requests that it reads before it",
    must: "the next cell's output is its own",
    contained: "second",
    async run({ open }) {
      const sandbox = await open();
      const code = `
import os
for fd in range(3, 256):
    for word in (b"\\n\\x1e" + b"0" * 32 + b" 0\\x1e", b"garbage\\n"):
        try: os.set_blocking(fd, False); os.write(fd, word)
        except OSError: pass
    try: os.close(fd)
    except OSError: pass`;
      await py(sandbox, code, 3_000);
      return py(sandbox, "print('second')");
    },
  },
  {
    name: "a patched Python worker",
    tries: "the functions with which the worker answers, replaced",
    must: "the next cell's output is its own",
    contained: "second",
    async run({ open }) {
      const sandbox = await open();
      const code = `
import builtins, gc, json, os, sys
os.write = lambda *a: 0
json.loads = lambda *a: {"code": "print('evil')", "nonce": "x"}
builtins.print = lambda *a, **k: None
for each in gc.get_objects():
    if isinstance(each, dict) and "answer" in each and "requests" in each:
        each["answer"] = lambda *a: None
sys.exit(0)`;
      await py(sandbox, code, 3_000);
      await py(sandbox, "x = 1", 3_000);
      await py(sandbox, "import os; os._exit(0)", 3_000);
      return py(sandbox, "print('second')");
    },
  },
  {
    name: "figures that are none",
    tries:
      "links to files of the machine, devices, and files that are no pictures, as figures of a cell, by a false matplotlib",
    must: "none of them is read",
    contained: { figures: 0, next: "second" },
    async run({ open, secret }) {
      const sandbox = await open();
      const code = `
import os, sys, types
def save(path, **_):
    number = int(path.rsplit("/", 1)[1].split(".")[0])
    if number == 1: os.symlink(${JSON.stringify(secret.path)}, path)
    elif number == 2: os.symlink("/dev/zero", path)
    elif number == 3: os.mkfifo(path)
    elif number == 4: os.symlink("/proc/1/environ", path)
    elif number == 5: os.mkdir(path)
    elif number == 6: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 30 << 20)
    else: open(path, "w").write("no picture")
fake = types.ModuleType("matplotlib.pyplot")
fake.get_fignums = lambda: list(range(1, 1000))
fake.figure = lambda number: types.SimpleNamespace(savefig=save)
fake.close = lambda which: None
sys.modules["matplotlib.pyplot"] = fake`;
      const { figures } = await sandbox.python(code, { timeoutMs: 5_000, signal: never });
      await py(sandbox, "del sys.modules['matplotlib.pyplot']");
      return { figures: figures.length, next: await py(sandbox, "print('second')") };
    },
  },
  {
    name: "the files that commands go through",
    tries:
      "links to the machine, FIFOs and folders where the server writes a long command, a terminal's, a cell and the Python worker",
    must: "the server writes nothing outside, and says that it was not run; a restart mends it",
    contained: { machine: true, said: true, short: "alive" },
    async run({ open, secret }) {
      const sandbox = await open();
      await sh(
        sandbox,
        `cd /run; rm -f command cell.py python-worker.py; ln -s ${secret.path} command; mkfifo cell.py terminal-command; mkdir python-worker.py`,
      );
      const long = `echo ${"x".repeat(20_000)}`;
      const { note } = await sandbox.shell(long, { timeoutMs: 3_000, signal: never });
      const cell = await sandbox.python("print(1)", { timeoutMs: 3_000, signal: never });
      const typed = { kind: "command", text: "echo 1" } as const;
      const terminal = await sandbox.terminal(typed, { timeoutMs: 3_000, signal: never });
      const machine = readFileSync(secret.path, "utf8") === secret.text;
      const said = [note, cell.note, terminal.note].every((each) => each?.startsWith("It was not run") ?? false);
      return { machine, said, short: await sh(sandbox, "echo alive") };
    },
  },
];
