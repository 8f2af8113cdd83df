import { and, asc, desc, eq, isNull, lte, or, sql } from "drizzle-orm";
import { assert } from "../../errors.ts";
import { newId } from "../../ids.ts";
import type { VerbContext } from "../context.ts";
import { findRow, loadJob } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import { once } from "../once.ts";
import type { ClaimedJob } from "../store.ts";
import { attempts, groups, jobs } from "../tables.ts";

/** The next queued job of one of `models` whose retry time has come, now `initializing` with a new attempt. */
export function claimQueued(context: VerbContext, models: readonly string[]): ClaimedJob | null {
  // One look into the index for each model: a model without a backend cannot make the others wait behind its queue.
  const heads = models.flatMap((model) => selectHead(context.db).get({ model, nowMs: context.nowMs }) ?? []);
  const next = heads.sort(byClaimOrder)[0];
  if (!next) return null;
  const row = findRow(context, next.id);
  assert(row && !row.cancelRequested, `queued job ${next.id} is there, and a cancelled one would be finished`);
  const tries = countAttempts(context.db).get({ jobId: row.id })?.attempts ?? 0;
  const attemptId = newId("att", context.nowMs);
  insertAttempt(context.db).run({
    id: attemptId,
    jobId: row.id,
    number: tries + 1,
    trajectoryId: newId("trj", context.nowMs),
    nowMs: context.nowMs,
    backendIds: [],
  });
  moveState(context, row, "initializing");
  startAttempt(context.db).run({ id: row.id, attemptId });
  const job = loadJob(context, row.id);
  const task = selectTask(context.db).get({ groupId: row.groupId });
  assert(job && task, `job ${row.id} and its group are there`);
  return { job, taskJson: task.task, attemptId, carry: null };
}

interface Head {
  id: string;
  priority: number;
  createdAt: number;
}

function byClaimOrder(a: Head, b: Head): number {
  return b.priority - a.priority || a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1);
}

const selectHead = once((db) =>
  db
    .select({ id: jobs.id, priority: jobs.priority, createdAt: jobs.createdAt })
    .from(jobs)
    .where(
      and(
        eq(jobs.model, sql.placeholder("model")),
        // A literal: with a bound value SQLite cannot know that the partial index applies.
        sql`${jobs.state} = 'queued'`,
        or(isNull(jobs.notBefore), lte(jobs.notBefore, sql.placeholder("nowMs"))),
      ),
    )
    .orderBy(desc(jobs.priority), asc(jobs.createdAt), asc(jobs.id))
    .limit(1)
    .prepare(),
);

const countAttempts = once((db) =>
  db
    .select({ attempts: sql<number>`count(*)` })
    .from(attempts)
    .where(eq(attempts.jobId, sql.placeholder("jobId")))
    .prepare(),
);

const insertAttempt = once((db) =>
  db
    .insert(attempts)
    .values({
      id: sql.placeholder("id"),
      jobId: sql.placeholder("jobId"),
      number: sql.placeholder("number"),
      trajectoryId: sql.placeholder("trajectoryId"),
      startedAt: sql.placeholder("nowMs"),
      stage: "init",
      backendIds: sql.placeholder("backendIds"),
    })
    .prepare(),
);

/** The times of an attempt that failed are not those of the one that counts; `queued_ms` is the job's own. */
const startAttempt = once((db) =>
  db
    .update(jobs)
    .set({
      attemptId: sql`${sql.placeholder("attemptId")}`,
      notBefore: null,
      initMs: 0,
      readyMs: 0,
      runMs: 0,
      llmMs: 0,
      toolMs: 0,
      awaitingEvalMs: 0,
      evalMs: 0,
    })
    .where(eq(jobs.id, sql.placeholder("id")))
    .prepare(),
);

const selectTask = once((db) =>
  db
    .select({ task: groups.task })
    .from(groups)
    .where(eq(groups.id, sql.placeholder("groupId")))
    .prepare(),
);
