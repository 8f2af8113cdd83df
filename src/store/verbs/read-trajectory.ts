import { and, asc, desc, eq, isNotNull } from "drizzle-orm";
import { assert } from "../../errors.ts";
import type { VerbContext } from "../context.ts";
import { loadJob } from "../job-rows.ts";
import type { StoredTrajectory } from "../store.ts";
import { attempts, branches, evaluations, jobs, turns } from "../tables.ts";
import { fromBranchRow, fromTurnRow } from "../turn-rows.ts";

/** The trajectory of a job's current or last attempt; null when the job is unknown or was never begun. */
export function readTrajectory(context: VerbContext, jobId: string): StoredTrajectory | null {
  const { db } = context;
  const current = db.select({ attemptId: jobs.attemptId }).from(jobs).where(eq(jobs.id, jobId)).get();
  if (!current?.attemptId) return null;
  const attemptId = current.attemptId;
  const attempt = db.select().from(attempts).where(eq(attempts.id, attemptId)).get();
  const job = loadJob(context, jobId);
  assert(attempt && job, `job ${jobId} has its attempt ${attemptId}`);
  const turnRows = db.select().from(turns).where(eq(turns.attemptId, attemptId)).orderBy(asc(turns.number)).all();
  const branchRows = db
    .select()
    .from(branches)
    .where(eq(branches.attemptId, attemptId))
    .orderBy(asc(branches.number))
    .all();
  return {
    id: attempt.trajectoryId,
    job,
    attemptId,
    messages: attempt.messages ?? [],
    tools: attempt.tools ?? [],
    network: attempt.network,
    turns: turnRows.map(fromTurnRow),
    toolResults: turnRows.map((row) => row.toolResults ?? []),
    branches: branchRows.map(fromBranchRow),
    model: attempt.modelInfo,
    evaluation: readVerdict(context, attemptId),
  };
}

function readVerdict(context: VerbContext, attemptId: string): StoredTrajectory["evaluation"] {
  const row = context.db
    .select()
    .from(evaluations)
    .where(and(eq(evaluations.attemptId, attemptId), isNotNull(evaluations.reward)))
    .orderBy(desc(evaluations.number))
    .limit(1)
    .get();
  if (!row || row.reward === null || row.grading === null) return null;
  return {
    attempt: row.number,
    reward: row.reward,
    rewards: row.rewards ?? {},
    report: row.report ?? {},
    log: row.log ?? "",
    grading: row.grading,
  };
}
