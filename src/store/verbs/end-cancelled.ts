import { assert, REASONS } from "../../errors.ts";
import type { Job } from "../../job/job.ts";
import type { Stage } from "../../job/state.ts";
import type { VerbContext } from "../context.ts";
import { endEvaluation } from "../end-evaluation.ts";
import { CANCELLED, finishJob, jobError } from "../finish-job.ts";
import { currentRow, findRow, loadJob } from "../job-rows.ts";
import { saveRun } from "../save-run.ts";
import type { RunEnd } from "../store.ts";

interface Input {
  jobId: string;
  attemptId: string;
  stage: Stage;
  run: RunEnd | null;
}

/**
 * Ends a job without grading. `run` keeps what was sampled so far, and its end reason when that is a cancellation of
 * another kind (`surplus`, `lag_exceeded`). A job that has finished meanwhile is given back as it is.
 */
export function endCancelled(context: VerbContext, input: Input): Job {
  const before = currentRow(context, input.jobId, input.attemptId);
  if (before.state !== "finished") {
    if (input.run && before.ledger === null) saveRun(context, input.run);
    if (before.state === "evaluating") {
      endEvaluation(context, input.attemptId, { error: jobError("cancelled", "eval", "the job was cancelled") });
    }
    const row = findRow(context, input.jobId);
    assert(row, `job ${input.jobId} is there`);
    const asked = input.run?.outcome.endReason ?? "cancelled";
    const endReason = REASONS[asked].status === "cancelled" ? asked : "cancelled";
    finishJob(context, row, { ...CANCELLED, endReason, ...(input.run ? { timing: input.run.timing } : {}) });
  }
  const job = loadJob(context, input.jobId);
  assert(job, `job ${input.jobId} is there`);
  return job;
}
