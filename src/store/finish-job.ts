import { asc, eq } from "drizzle-orm";
import { assert, REASONS, type Reason } from "../errors.ts";
import type { Job, JobError, JobTiming, LedgerVerdict, Verdict } from "../job/job.ts";
import { versionRange } from "../trajectory/versions.ts";
import { addEvent } from "./add-event.ts";
import type { VerbContext } from "./context.ts";
import { finishedData } from "./event-data.ts";
import { type JobRow, loadJob } from "./job-rows.ts";
import { moveState } from "./move-state.ts";
import { attempts, jobs, results, turns } from "./tables.ts";

/** How a job ends for good. `graded` is null unless a grader gave a reward. */
export interface JobEnd {
  endReason: Reason;
  error: JobError | null;
  graded: { verdict: Verdict; trainable: boolean } | null;
  timing?: Partial<JobTiming>;
}

/**
 * Finishes a job: its outcome, its open attempt, its row in the results log and the `finished` event, all in the
 * caller's transaction. What RUN left in the row stays; where RUN never ended, the turns are counted.
 */
export function finishJob(context: VerbContext, row: JobRow, end: JobEnd): Job {
  const { verdict = null, trainable = false } = end.graded ?? {};
  moveState(context, row, "finished", end.timing);
  context.db
    .update(jobs)
    .set({
      ...(row.ledger === null ? tallyTurns(context, row.attemptId) : {}),
      endReason: end.endReason,
      error: end.error,
      reward: verdict?.reward ?? null,
      rewards: verdict?.rewards ?? {},
      grading: verdict?.grading ?? null,
      trainable,
      finishedAt: context.nowMs,
      notBefore: null,
      totalMs: Math.max(0, context.nowMs - row.createdAt),
    })
    .where(eq(jobs.id, row.id))
    .run();
  if (row.attemptId !== null) endAttempt(context, row.attemptId, end);
  context.db.insert(results).values({ jobId: row.id, groupId: row.groupId, stream: row.stream }).run();
  const job = loadJob(context, row.id);
  assert(job?.outcome, `job ${row.id} has just been finished`);
  addEvent(context, "finished", row.id, finishedData(row.id, job.outcome));
  return job;
}

/** Ends an attempt unless it has ended: the first cause is kept. */
export function endAttempt(
  context: VerbContext,
  attemptId: string,
  end: { endReason: Reason; error: JobError | null; backendIds?: readonly string[] },
): void {
  const attempt = context.db
    .select({ endedAt: attempts.endedAt })
    .from(attempts)
    .where(eq(attempts.id, attemptId))
    .get();
  if (attempt?.endedAt !== null) return;
  context.db
    .update(attempts)
    .set({
      endedAt: context.nowMs,
      endReason: end.endReason,
      error: end.error,
      ...(end.backendIds === undefined ? {} : { backendIds: end.backendIds }),
    })
    .where(eq(attempts.id, attemptId))
    .run();
}

/** The end of a job whose cancellation was asked for, and of which no more is known. */
export const CANCELLED: JobEnd = { endReason: "cancelled", error: null, graded: null };

/** An error as a job and an attempt keep it. */
export function jobError(reason: Reason, stage: JobError["stage"], detail: string): JobError {
  return { reason, blame: REASONS[reason].blame, stage, detail };
}

function tallyTurns(context: VerbContext, attemptId: string | null) {
  const rows =
    attemptId === null
      ? []
      : context.db
          .select({
            drift: turns.drift,
            promptTokens: turns.promptTokens,
            sampledTokens: turns.sampledTokens,
            versions: turns.versions,
          })
          .from(turns)
          .where(eq(turns.attemptId, attemptId))
          .orderBy(asc(turns.number))
          .all();
  const versions = versionRange(rows);
  const ledger: LedgerVerdict = rows.some((row) => row.drift === "fork") ? "forked" : "exact";
  return {
    turns: rows.length,
    promptTokens: rows.reduce((sum, row) => sum + row.promptTokens, 0),
    sampledTokens: rows.reduce((sum, row) => sum + row.sampledTokens, 0),
    policyVersionMin: versions.min,
    policyVersionMax: versions.max,
    ledger,
  };
}
