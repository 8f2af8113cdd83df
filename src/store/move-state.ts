import { eq, sql } from "drizzle-orm";
import { assert } from "../errors.ts";
import type { JobTiming } from "../job/job.ts";
import { isLegalMove, type State } from "../job/state.ts";
import { addEvent } from "./add-event.ts";
import type { VerbContext } from "./context.ts";
import { stateData } from "./event-data.ts";
import type { JobRow } from "./job-rows.ts";
import { once } from "./once.ts";
import { jobCounts, jobs } from "./tables.ts";

/** States in which nobody works on a job: how long it stood there is known to the rows alone. */
const WAITING: Partial<Record<State, "queuedMs" | "readyMs" | "awaitingEvalMs">> = {
  queued: "queuedMs",
  ready: "readyMs",
  awaiting_eval: "awaitingEvalMs",
};

/**
 * Moves a job to `to`: its state, the counters, the event, and its times. `timing` is added to what the job has; the
 * time it waited in the state that it leaves is measured here unless `timing` names it. An illegal move is an assertion.
 */
export function moveState(context: VerbContext, row: JobRow, to: State, timing: Partial<JobTiming> = {}): void {
  assert(isLegalMove(row.state, to), `job ${row.id} may not go from ${row.state} to ${to}`);
  const waited = WAITING[row.state];
  const waitedMs = waited === undefined ? {} : { [waited]: Math.max(0, context.nowMs - row.stateSince) };
  updateState(context.db).run({ ...NO_TIME, ...waitedMs, ...timing, id: row.id, to, nowMs: context.nowMs });
  addToCount(context, row.state, -1);
  addToCount(context, to, 1);
  addEvent(context, "state", row.id, stateData(row.id, row.state, to));
}

/** Keeps the counters that `counts` answers from. */
export function addToCount(context: VerbContext, state: State, jobsAdded: number): void {
  upsertCount(context.db).run({ state, jobsAdded });
}

const NO_TIME: JobTiming = {
  queuedMs: 0,
  initMs: 0,
  readyMs: 0,
  runMs: 0,
  llmMs: 0,
  toolMs: 0,
  awaitingEvalMs: 0,
  evalMs: 0,
  totalMs: 0,
};

const updateState = once((db) =>
  db
    .update(jobs)
    .set({
      state: sql`${sql.placeholder("to")}`,
      stateSince: sql`${sql.placeholder("nowMs")}`,
      queuedMs: sql`${jobs.queuedMs} + ${sql.placeholder("queuedMs")}`,
      initMs: sql`${jobs.initMs} + ${sql.placeholder("initMs")}`,
      readyMs: sql`${jobs.readyMs} + ${sql.placeholder("readyMs")}`,
      runMs: sql`${jobs.runMs} + ${sql.placeholder("runMs")}`,
      llmMs: sql`${jobs.llmMs} + ${sql.placeholder("llmMs")}`,
      toolMs: sql`${jobs.toolMs} + ${sql.placeholder("toolMs")}`,
      awaitingEvalMs: sql`${jobs.awaitingEvalMs} + ${sql.placeholder("awaitingEvalMs")}`,
      evalMs: sql`${jobs.evalMs} + ${sql.placeholder("evalMs")}`,
      totalMs: sql`${jobs.totalMs} + ${sql.placeholder("totalMs")}`,
    })
    .where(eq(jobs.id, sql.placeholder("id")))
    .prepare(),
);

const upsertCount = once((db) =>
  db
    .insert(jobCounts)
    .values({ state: sql.placeholder("state"), jobs: sql.placeholder("jobsAdded") })
    .onConflictDoUpdate({
      target: jobCounts.state,
      set: { jobs: sql`${jobCounts.jobs} + ${sql.placeholder("jobsAdded")}` },
    })
    .prepare(),
);
