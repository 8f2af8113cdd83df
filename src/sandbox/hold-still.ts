import { readdirSync, readFileSync } from "node:fs";
import type { Clock } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import {
  descendantMarksOf,
  descendantsOf,
  isMarkRunning,
  markOf,
  type ProcessMark,
  signalProcess,
} from "./process-tree.ts";

const POLL_MS = 1;
/** A process that waits for the disk, or in vfork for a child that is stopped, runs nothing. */
const QUIET_STATES = "TtZXD";

/**
 * Stops every process of a sandbox, PID 1 first, and resolves when none runs; call the answer to let them go on. One that
 * the agent had stopped itself stays so. Throws RolloutError sandbox_limit when they cannot be stopped in time.
 */
export async function holdStill(initPid: number, clock: Clock): Promise<() => void> {
  const stopped: ProcessMark[] = [];
  const resume = () => {
    // Children first: a shell with job control takes a child that is still stopped for one that was sent to sleep.
    for (const mark of stopped.reverse()) if (isMarkRunning(mark)) signalProcess(mark.pid, "SIGCONT");
  };
  const seen = new Set<number>();
  for (let ms = 0; ms < LIMITS.snapshotStillMs; ms += POLL_MS) {
    const init = markOf(initPid);
    const marks = [...(init === null ? [] : [init]), ...descendantMarksOf(initPid)];
    const all = marks.map(({ pid }) => pid);
    for (const mark of marks.filter(({ pid }) => !seen.has(pid))) {
      seen.add(mark.pid);
      if (threadStates(mark.pid).every((state) => state === "T") || !isMarkRunning(mark)) continue;
      stopped.push(mark);
      signalProcess(mark.pid, "SIGSTOP");
    }
    if (all.every(isQuiet) && descendantsOf(initPid).length === all.length - 1) return resume;
    await clock.sleep(POLL_MS);
  }
  resume();
  throw new RolloutError("sandbox_limit", "the processes of the sandbox could not be held still for a snapshot");
}

function isQuiet(pid: number): boolean {
  return threadStates(pid).every((state) => QUIET_STATES.includes(state));
}

/** None when it is gone. */
function threadStates(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map((thread) => {
      const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "latin1");
      return stat.charAt(stat.lastIndexOf(")") + 2);
    });
  } catch {
    return [];
  }
}
