import { eq } from "drizzle-orm";
import { assert, REASONS } from "../../errors.ts";
import { retryDelayMs } from "../../job/retry.ts";
import type { VerbContext } from "../context.ts";
import { endEvaluation } from "../end-evaluation.ts";
import { CANCELLED, finishJob, jobError } from "../finish-job.ts";
import { currentRow } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import type { Aftermath, EndedAttempt } from "../store.ts";
import { jobs } from "../tables.ts";

/** EVAL failed: it alone is repeated, with tries of its own, or the job is finished as failed without a reward. */
export function failEval(context: VerbContext, end: EndedAttempt): Aftermath {
  const row = currentRow(context, end.jobId, end.attemptId);
  const { reason, detail } = end.error;
  assert(row.state === "evaluating", `job ${row.id} is ${row.state}, not evaluating`);
  const error = jobError(reason, "eval", detail);
  endEvaluation(context, end.attemptId, { error });
  if (row.cancelRequested) return { kind: "finished", job: finishJob(context, row, CANCELLED) };
  const counted = row.evaluationsCounted + (REASONS[reason].retry === "always" ? 0 : 1);
  const delayMs = retryDelayMs(reason, { counted, attemptsMax: row.limits.attemptsMax });
  if (delayMs === null) {
    return { kind: "finished", job: finishJob(context, row, { endReason: reason, error, graded: null }) };
  }
  const notBeforeMs = context.nowMs + delayMs;
  moveState(context, row, "awaiting_eval");
  context.db
    .update(jobs)
    .set({ evaluationsCounted: counted, notBefore: delayMs === 0 ? null : notBeforeMs })
    .where(eq(jobs.id, row.id))
    .run();
  return { kind: "retry", notBeforeMs };
}
