import { z } from "zod";
import { asRolloutError } from "../errors.ts";
import { type Carry, EMPTY_CARRY, type Verdict } from "../job/job.ts";
import type { JobLimits } from "../job/limits.ts";
import type { Task } from "../job/task.ts";
import type { Log } from "../log.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import type { Handler } from "./handler.ts";
import { checkVerdict } from "./verdict.ts";

/** What a check of one task found. `ok`: the empty agent gets less than full marks and the reference gets them. */
export interface TaskCheck {
  taskId: string;
  ok: boolean;
  emptyReward: number | null;
  /** Null also when the row has no reference solution. */
  referenceReward: number | null;
  problem: string | null;
}

const FULL_MARKS = 1;
const NO_REFERENCE = "the row has no reference solution to grade";
const BAD_REFERENCE = 'its reference is not of the form {"answer": "...", "files": {"/workspace/...": "..."}}';

/** Grades a task twice without any model: for an agent that did nothing, and for the row's reference solution. */
export async function checkTask(
  parts: { sandboxes: Pick<SandboxHost, "open" | "start">; log: Log },
  { task, handler }: { task: Task; handler: Handler },
  limits: JobLimits,
  signal: AbortSignal,
): Promise<TaskCheck> {
  const grade = async (carry: Carry): Promise<Verdict> =>
    checkVerdict(await handler.evaluate({ task, carry, limits, signal, log: parts.log, sandboxes: parts.sandboxes }));
  const check: TaskCheck = { taskId: task.id, ok: false, emptyReward: null, referenceReward: null, problem: null };
  try {
    check.emptyReward = (await grade(EMPTY_CARRY)).reward;
    const reference = handler.reference(task);
    if (reference === null) return { ...check, problem: task.reference === undefined ? NO_REFERENCE : BAD_REFERENCE };
    const verdict = await grade(reference);
    check.referenceReward = verdict.reward;
    if (verdict.reward < FULL_MARKS)
      return { ...check, problem: `the reference gets ${verdict.reward}: ${whyLess(verdict)}` };
  } catch (error) {
    signal.throwIfAborted();
    return { ...check, problem: asRolloutError(error, "handler_error").message };
  }
  if (check.emptyReward >= FULL_MARKS) return { ...check, problem: "an agent that does nothing gets full marks" };
  return { ...check, ok: true };
}

const Results = z.object({
  results: z.array(z.object({ passed: z.boolean(), detail: z.string(), why: z.string().nullable() })),
});

/** The first hidden test that failed and why, where a report tells of tests; else what the grader logged. */
function whyLess({ report, log }: Verdict): string {
  const failed = Results.safeParse(report).data?.results.find((result) => !result.passed);
  if (failed === undefined || failed.why === null) return log.trim() || "the grader says no more";
  return `${failed.why} (${failed.detail})`;
}
