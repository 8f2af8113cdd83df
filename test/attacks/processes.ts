import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { type Attack, never, py, pythonAttack, refusedCommand, SMALL, sh, shellAttack } from "./attack.ts";

/** What is left of a sandbox in which `command` ran, once it is closed. */
function leaveBehind(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return {
    name,
    tries,
    must: "nothing is left when the sandbox is closed",
    contained: NOTHING,
    async run({ host }) {
      const before = residue();
      const sandbox = await host.open({ image: "host", limits: SMALL }, never);
      await sh(sandbox, command, 2_000).catch(() => "");
      await sandbox.close();
      return leftSince(before);
    },
  };
}

/** The session answers after `command`, in step. */
function stillAnswers(name: string, { tries, command }: { tries: string; command: string }): Attack {
  return {
    name,
    tries,
    must: "the next command is answered, in step",
    contained: "second",
    async run({ open }) {
      const sandbox = await open();
      await sh(sandbox, command, 1_500);
      return sh(sandbox, "echo second");
    },
  };
}

/** Outliving, escaping or confusing what watches over processes. */
export const PROCESSES: readonly Attack[] = [
  leaveBehind("daemons", {
    tries: "processes in sessions of their own that ignore every signal",
    command: "for i in 1 2 3; do (trap '' INT TERM HUP QUIT; setsid sleep 1000 &) & done; sleep 0.1",
  }),
  leaveBehind("daemons that fork again and again", {
    tries: "being another process by the time it is killed",
    command: `python3 -c '
import os, signal
for each in (1, 2, 3, 15): signal.signal(each, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork(): os._exit(0)
' & sleep 0.3`,
  }),
  leaveBehind("a fork bomb", {
    tries: "more processes than can be killed",
    command: "bomb() { bomb | bomb & }; bomb; sleep 0.5",
  }),
  leaveBehind("stopped processes", {
    tries: "processes that a signal cannot wake",
    command: "sleep 1000 & kill -STOP $!; (kill -STOP $BASHPID) & sleep 0.1",
  }),
  leaveBehind("a pile of orphans", {
    tries: "500 processes whose parents are gone",
    command: "for i in $(seq 500); do (sleep 0 &) ; done; sleep 0.2",
  }),
  stillAnswers("kill -9 -1", { tries: "killing all that it can reach, its watchers too", command: "kill -9 -1" }),
  stillAnswers("kill -9 of its shell", { tries: "an end without an answer", command: "kill -9 $$" }),
  stillAnswers("exec", { tries: "another program in the shell's place", command: "exec sleep 1000" }),
  stillAnswers("exit", { tries: "ending the session", command: "exit 7" }),
  stillAnswers("ignored interrupts", {
    tries: "a command that cannot be interrupted",
    command: "trap '' INT; sleep 1000",
  }),
  stillAnswers("an endless loop of builtins", { tries: "a shell that never waits", command: "while :; do :; done" }),
  stillAnswers("unterminated input", { tries: "a shell that waits for more", command: "cat <<'END' \"'`(" }),
  stillAnswers("closed descriptors", {
    tries: "a shell without its own output",
    command: 'exec 0<&- 1>&- 2>&-; for i in 3 4 5 6 7 8 9 10 11 255; do eval "exec $i>&-"; done',
  }),
  stillAnswers("functions and aliases in place of builtins", {
    tries: "being run between two commands",
    command:
      "printf() { echo hijacked; }; builtin() { echo hijacked; }; command() { :; }; alias printf=false; enable -n printf; trap 'echo hijacked' DEBUG",
  }),
  {
    name: "signals to PID 1",
    tries: "bringing down the sandbox's init, and with it the record of what happened",
    must: "PID 1 takes no signal from inside; the session answers",
    contained: "alive",
    async run({ open }) {
      const sandbox = await open();
      await sh(sandbox, "for s in TERM INT HUP KILL STOP SEGV USR1; do kill -$s 1; done", 3_000);
      return sh(sandbox, "echo alive");
    },
  },
  {
    name: "the memory of PID 1",
    tries: "writing through /proc/1/mem",
    must: "at worst its own sandbox ends, by its own doing",
    contained: true,
    async run({ open, host }) {
      const sandbox = await open();
      const code = `
try:
    spans = [line.split() for line in open("/proc/1/maps")]
    with open("/proc/1/mem", "r+b", 0) as memory:
        for span in spans:
            if "w" in span[1]:
                start, end = (int(part, 16) for part in span[0].split("-"))
                memory.seek(start)
                memory.write(b"\\xff" * min(end - start, 1 << 20))
except OSError: pass
import os; os.kill(1, 10)`;
      await py(sandbox, code, 3_000).catch(() => "");
      const after = await sandbox.shell("echo alive", { timeoutMs: 3_000, signal: never }).then(
        ({ output }) => output,
        (error: unknown) => String(error),
      );
      const neighbour = await host.open({ image: "host", limits: SMALL }, never);
      const undisturbed = await sh(neighbour, "echo undisturbed");
      await neighbour.close();
      return undisturbed === "undisturbed" && (after === "alive\n" || after.includes("sandbox_limit"));
    },
  },
  {
    name: "reused process ids",
    tries: "taking the id of a process that the server is about to kill",
    must: "only processes of the sandbox are ever killed, and the session answers",
    contained: "second",
    async run({ open }) {
      const sandbox = await open();
      await sh(sandbox, "while :; do /bin/true; done", 1_000);
      return sh(sandbox, "echo second");
    },
  },
  refusedCommand(
    "priority",
    "a higher priority than others",
    "nice -n -5 true 2>&1 | grep -q . && false || nice -n -5 sh -c 'test $(nice) -lt 0'",
  ),
  pythonAttack("real-time scheduling", {
    tries: "a processor for itself",
    must: "EPERM",
    code: `import os
try: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10)); print("done")
except PermissionError: print("EPERM")`,
    contained: "EPERM",
  }),
  refusedCommand("oom_score_adj", "making the kernel kill others first", "echo -900 > /proc/self/oom_score_adj"),
  shellAttack("raised limits", {
    tries: "lifting the limits of its own processes",
    must: "refused, each",
    command:
      "for l in '-n 1000000' '-u 100000' '-c 1' '-l 1024' '-r 10' '-f unlimited'; do (ulimit -H $l) 2>/dev/null && echo \"$l\"; done; prlimit --pid $$ --nofile=1000000 2>/dev/null && echo prlimit; true",
    contained: "",
  }),
];
