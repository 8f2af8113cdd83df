import { readdirSync, readFileSync } from "node:fs";

/** Looks at the processes of a sandbox from outside, through /proc. Every answer may be out of date when it arrives. */

/** Most processes that one look follows; a sandbox's own limit is lower. */
const PROCESSES_MAX = 65_536;
/** Where the start time stands after the name in `/proc/PID/stat`. */
const START_FIELD = 19;
/** Where the parent's pid stands there. */
const PARENT_FIELD = 1;
/** Where the foreground process group of its terminal stands there. */
const FOREGROUND_FIELD = 5;

/** All descendants of `pid`, parents first. */
export function descendantsOf(pid: number): number[] {
  const found: number[] = [];
  const seen = new Set<number>([pid]);
  const open = [pid];
  for (let at = 0; at < open.length && found.length < PROCESSES_MAX; at += 1) {
    for (const child of childrenOf(open[at] ?? 0)) {
      if (seen.has(child)) continue;
      seen.add(child);
      found.push(child);
      open.push(child);
    }
  }
  return found;
}

/** Direct children of all threads of `pid`; none when it is gone. */
export function childrenOf(pid: number): number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).flatMap((thread) =>
      readFileSync(`/proc/${pid}/task/${thread}/children`, "latin1")
        .split(" ")
        .map(Number)
        .filter((child) => child > 0),
    );
  } catch {
    return [];
  }
}

/** The pid that `pid` has in the innermost namespace it lives in; null when it is gone. */
export function innerPidOf(pid: number): number | null {
  try {
    const line = /^NSpid:\s*(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return line === undefined ? null : Number(line.trim().split(/\s+/).at(-1));
  } catch {
    return null;
  }
}

/** A process that a later one with the same pid is not taken for: pids come round within minutes of busy sandboxes. */
export interface ProcessMark {
  readonly pid: number;
  /** When it started, in ticks of the kernel's clock. */
  readonly start: string;
}

/**
 * Marks of all descendants of `pid`, parents first. A process that ended while they were looked for is left out, and so is
 * another that has its number since: its parent is not the one under which the number was found.
 */
export function descendantMarksOf(pid: number): ProcessMark[] {
  const found: ProcessMark[] = [];
  const seen = new Set<number>([pid]);
  const open = [pid];
  for (let at = 0; at < open.length && found.length < PROCESSES_MAX; at += 1) {
    for (const child of childrenOf(open[at] ?? 0)) {
      const fields = seen.has(child) ? null : fieldsOf(child);
      const start = fields?.[START_FIELD];
      if (start === undefined || fields?.[PARENT_FIELD] !== String(open[at])) continue;
      seen.add(child);
      found.push({ pid: child, start });
      open.push(child);
    }
  }
  return found;
}

/** Null when `pid` is gone. */
export function markOf(pid: number): ProcessMark | null {
  const start = fieldsOf(pid)?.[START_FIELD];
  return start === undefined ? null : { pid, start };
}

/** Whether it still runs, and not another process in its place. */
export function isMarkRunning({ pid, start }: ProcessMark): boolean {
  const fields = fieldsOf(pid);
  return fields !== null && fields[START_FIELD] === start && isRunningState(fields[0]);
}

/** The pid of its parent; null when it is gone. */
export function parentOf(pid: number): number | null {
  const parent = Number(fieldsOf(pid)?.[PARENT_FIELD] ?? 0);
  return parent > 0 ? parent : null;
}

/** Whether it is what its terminal's keys go to and input comes from, and waits. */
export function isInForeground(mark: ProcessMark | null): boolean {
  if (mark === null || !isMarkRunning(mark)) return false;
  const fields = fieldsOf(mark.pid);
  return fields?.[FOREGROUND_FIELD] === String(mark.pid) && fields[0] === "S";
}

/** The letter of `/proc/PID/stat`: R, S, T, Z and so on; null when it is gone. */
export function stateOf(pid: number): string | null {
  return fieldsOf(pid)?.[0] ?? null;
}

/** Whether the process still runs; a zombie does not. */
export function isRunning(pid: number): boolean {
  return isRunningState(stateOf(pid));
}

function isRunningState(state: string | null | undefined): boolean {
  return typeof state === "string" && state !== "Z" && state !== "X";
}

/** What stands after the name in `/proc/PID/stat`: the state first. The name may hold spaces and parentheses. */
function fieldsOf(pid: number): string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
}

/** Sends a signal; a process that is gone is no error. */
export function signalProcess(pid: number, signal: "SIGINT" | "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
  try {
    process.kill(pid, signal);
  } catch {
    // ESRCH: it was quicker
  }
}
