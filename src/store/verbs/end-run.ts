import { assert, REASONS } from "../../errors.ts";
import type { Job } from "../../job/job.ts";
import type { VerbContext } from "../context.ts";
import { CANCELLED, finishJob } from "../finish-job.ts";
import { currentRow, findRow } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import { saveRun } from "../save-run.ts";
import type { RunEnd } from "../store.ts";

/**
 * RUN has ended: what it left is kept, and the job waits for EVAL or, when its end is not graded, is finished. A job
 * whose cancellation was asked for meanwhile is finished as cancelled, since nobody would claim it for EVAL. Gives the job
 * when it is finished, else null.
 */
export function endRun(context: VerbContext, run: RunEnd): Job | null {
  const before = currentRow(context, run.jobId, run.attemptId);
  assert(before.state === "running", `job ${run.jobId} is ${before.state}, not running`);
  saveRun(context, run);
  const row = findRow(context, run.jobId);
  assert(row, `job ${run.jobId} is there`);
  const { endReason, error } = run.outcome;
  if (row.cancelRequested && REASONS[endReason].status !== "cancelled") {
    return finishJob(context, row, { ...CANCELLED, timing: run.timing });
  }
  if (!REASONS[endReason].graded) {
    return finishJob(context, row, { endReason, error, graded: null, timing: run.timing });
  }
  moveState(context, row, "awaiting_eval", run.timing);
  return null;
}
