import { assert } from "../../errors.ts";
import type { Job, JobTiming, Verdict } from "../../job/job.ts";
import type { VerbContext } from "../context.ts";
import { endEvaluation } from "../end-evaluation.ts";
import { CANCELLED, finishJob } from "../finish-job.ts";
import { currentRow } from "../job-rows.ts";

interface Input {
  jobId: string;
  attemptId: string;
  verdict: Verdict;
  timing: Partial<JobTiming>;
}

/** A verdict was given: the job is finished with its reward, unless its cancellation was asked for before. */
export function endEval(context: VerbContext, input: Input): Job {
  const row = currentRow(context, input.jobId, input.attemptId);
  assert(row.state === "evaluating", `job ${row.id} is ${row.state}, not evaluating`);
  assert(Number.isFinite(input.verdict.reward), `the reward of job ${row.id} is ${input.verdict.reward}`);
  assert(row.endReason, `job ${row.id} has ended RUN for a reason`);
  endEvaluation(context, input.attemptId, { verdict: input.verdict });
  if (row.cancelRequested) return finishJob(context, row, { ...CANCELLED, timing: input.timing });
  const isExact = row.ledger === "exact" || row.ledger === "forked";
  const graded = { verdict: input.verdict, trainable: isExact && row.sampledTokens > 0 };
  return finishJob(context, row, { endReason: row.endReason, error: row.error, graded, timing: input.timing });
}
