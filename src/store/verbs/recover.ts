import { and, inArray, sql } from "drizzle-orm";
import { assert } from "../../errors.ts";
import { LIVE_STATES } from "../../job/state.ts";
import type { VerbContext } from "../context.ts";
import { endEvaluation } from "../end-evaluation.ts";
import { CANCELLED, endAttempt, finishJob, jobError } from "../finish-job.ts";
import { findRow, type JobRow } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import { jobs } from "../tables.ts";

const DETAIL = "the server was restarted while the job was at work";

/**
 * At start-up, when nothing of the life before runs any more: jobs that were in INIT or RUN are queued again, those in
 * EVAL wait for it again, and those whose cancellation was asked for are finished. Restarts count as no attempt.
 */
export function recover(context: VerbContext): { requeued: number; evalsRepeated: number } {
  const ids = context.db
    .select({ id: jobs.id })
    .from(jobs)
    // The literal lets the partial index of unfinished jobs serve; without it every finished job is looked at.
    .where(and(inArray(jobs.state, [...LIVE_STATES]), sql`${jobs.state} <> 'finished'`))
    .all();
  const done = { requeued: 0, evalsRepeated: 0 };
  for (const { id } of ids) {
    const row = findRow(context, id);
    assert(row?.attemptId, `live job ${id} has an attempt`);
    const what = recoverJob(context, row, row.attemptId);
    if (what !== null) done[what] += 1;
  }
  return done;
}

function recoverJob(context: VerbContext, row: JobRow, attemptId: string): "requeued" | "evalsRepeated" | null {
  const stage = row.state === "evaluating" ? "eval" : row.state === "running" ? "run" : "init";
  const error = jobError("server_restart", stage, DETAIL);
  if (stage === "eval") endEvaluation(context, attemptId, { error });
  else endAttempt(context, attemptId, { endReason: "server_restart", error });
  if (row.cancelRequested) {
    finishJob(context, row, CANCELLED);
    return null;
  }
  moveState(context, row, stage === "eval" ? "awaiting_eval" : "queued");
  return stage === "eval" ? "evalsRepeated" : "requeued";
}
