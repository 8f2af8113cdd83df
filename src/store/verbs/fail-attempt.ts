import { eq } from "drizzle-orm";
import { assert, REASONS } from "../../errors.ts";
import { retryDelayMs } from "../../job/retry.ts";
import type { VerbContext } from "../context.ts";
import { CANCELLED, endAttempt, finishJob, jobError } from "../finish-job.ts";
import { currentRow } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import type { Aftermath, EndedAttempt } from "../store.ts";
import { jobs } from "../tables.ts";

/** INIT or RUN failed: the attempt ends, and the job is queued for another or finished as failed. */
export function failAttempt(context: VerbContext, end: EndedAttempt): Aftermath {
  const row = currentRow(context, end.jobId, end.attemptId);
  const { reason, detail } = end.error;
  assert(
    row.state === "initializing" || row.state === "ready" || row.state === "running",
    `job ${row.id} is ${row.state}: no attempt of INIT or RUN is at work`,
  );
  const error = jobError(reason, end.stage, detail);
  endAttempt(context, end.attemptId, { endReason: reason, error, backendIds: end.backendIds });
  if (row.cancelRequested) return { kind: "finished", job: finishJob(context, row, CANCELLED) };
  const counted = row.attemptsCounted + (REASONS[reason].retry === "always" ? 0 : 1);
  const delayMs = retryDelayMs(reason, { counted, attemptsMax: row.limits.attemptsMax });
  if (delayMs === null) {
    return { kind: "finished", job: finishJob(context, row, { endReason: reason, error, graded: null }) };
  }
  const notBeforeMs = context.nowMs + delayMs;
  moveState(context, row, "queued");
  context.db
    .update(jobs)
    .set({ attemptsCounted: counted, notBefore: delayMs === 0 ? null : notBeforeMs })
    .where(eq(jobs.id, row.id))
    .run();
  return { kind: "retry", notBeforeMs };
}
