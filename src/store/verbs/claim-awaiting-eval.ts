import { and, asc, desc, eq, sql } from "drizzle-orm";
import { assert } from "../../errors.ts";
import { newId } from "../../ids.ts";
import type { Carry } from "../../job/job.ts";
import type { VerbContext } from "../context.ts";
import { findRow, loadJob } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import { once } from "../once.ts";
import type { ClaimedJob } from "../store.ts";
import { artifacts, attempts, evaluations, groups, jobs } from "../tables.ts";

/** The next job to be graded, now `evaluating` with a new evaluation, and what RUN left for it. */
export function claimAwaitingEval(context: VerbContext): ClaimedJob | null {
  const next = selectHead(context.db).get({ nowMs: context.nowMs });
  if (!next) return null;
  const row = findRow(context, next.id);
  assert(row?.attemptId, `job ${next.id} waits for EVAL and has an attempt`);
  assert(!row.cancelRequested, `job ${next.id} waits for EVAL: a cancelled one would be finished`);
  const attemptId = row.attemptId;
  const tries = context.db
    .select({ evaluations: sql<number>`count(*)` })
    .from(evaluations)
    .where(eq(evaluations.attemptId, attemptId))
    .get();
  context.db
    .insert(evaluations)
    .values({
      id: newId("evl", context.nowMs),
      jobId: row.id,
      attemptId,
      number: (tries?.evaluations ?? 0) + 1,
      startedAt: context.nowMs,
    })
    .run();
  moveState(context, row, "evaluating");
  context.db.update(jobs).set({ notBefore: null, evalMs: 0 }).where(eq(jobs.id, row.id)).run();
  context.db.update(attempts).set({ stage: "eval" }).where(eq(attempts.id, attemptId)).run();
  const job = loadJob(context, row.id);
  const group = context.db.select({ task: groups.task }).from(groups).where(eq(groups.id, row.groupId)).get();
  assert(job && group, `job ${row.id} and its group are there`);
  return { job, taskJson: group.task, attemptId, carry: readCarry(context, attemptId) };
}

function readCarry(context: VerbContext, attemptId: string): Carry {
  const attempt = context.db.select({ carry: attempts.carry }).from(attempts).where(eq(attempts.id, attemptId)).get();
  assert(attempt?.carry, `attempt ${attemptId} has ended RUN and left a carry`);
  const files = context.db
    .select({ name: artifacts.name, bytes: artifacts.content })
    .from(artifacts)
    .where(and(eq(artifacts.attemptId, attemptId), eq(artifacts.fromTool, false)))
    .orderBy(asc(artifacts.name))
    .all();
  return { answer: attempt.carry.answer, artifacts: files };
}

const selectHead = once((db) =>
  db
    .select({ id: jobs.id })
    .from(jobs)
    .where(
      sql`${jobs.state} = 'awaiting_eval' and (${jobs.notBefore} is null or ${jobs.notBefore} <= ${sql.placeholder("nowMs")})`,
    )
    .orderBy(desc(jobs.priority), asc(jobs.createdAt), asc(jobs.id))
    .limit(1)
    .prepare(),
);
