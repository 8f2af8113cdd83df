import { asc, eq, inArray, sql } from "drizzle-orm";
import { assert, REASONS } from "../errors.ts";
import type { Attempt, Job, JobTiming, Outcome } from "../job/job.ts";
import type { VerbContext } from "./context.ts";
import { once } from "./once.ts";
import { artifacts, attempts, jobs } from "./tables.ts";

export type JobRow = typeof jobs.$inferSelect;
export type AttemptRow = Omit<typeof attempts.$inferSelect, "messages" | "network" | "tools" | "modelInfo" | "carry">;
type ArtifactRow = { attemptId: string; name: string; bytes: number };

/** The row alone; null when there is none. */
export function findRow(context: VerbContext, jobId: string): JobRow | null {
  return selectJob(context.db).get({ id: jobId }) ?? null;
}

/** The row of a job that the caller knows to exist, and of the attempt that is its current one. */
export function currentRow(context: VerbContext, jobId: string, attemptId: string): JobRow {
  const row = findRow(context, jobId);
  assert(row, `job ${jobId} is not in the store`);
  assert(
    row.attemptId === attemptId,
    `attempt ${attemptId} of job ${jobId} is not its current one, ${row.attemptId} is`,
  );
  return row;
}

/** The whole job; null when there is none. */
export function loadJob(context: VerbContext, jobId: string): Job | null {
  const row = findRow(context, jobId);
  if (!row) return null;
  const made = row.attemptId === null ? [] : selectArtifacts(context.db).all({ attemptId: row.attemptId });
  return toJob(row, selectAttempts(context.db).all({ jobId }), made);
}

/** Jobs of rows, in the order of the rows, with three statements for all of them. */
export function jobsOfRows(context: VerbContext, rows: readonly JobRow[]): readonly Job[] {
  if (rows.length === 0) return [];
  const attemptRows = context.db
    .select(attemptColumns)
    .from(attempts)
    .where(
      inArray(
        attempts.jobId,
        rows.map((row) => row.id),
      ),
    )
    .orderBy(asc(attempts.jobId), asc(attempts.number))
    .all();
  const artifactRows = context.db
    .select(artifactColumns)
    .from(artifacts)
    .where(
      inArray(
        artifacts.attemptId,
        rows.flatMap((row) => row.attemptId ?? []),
      ),
    )
    .orderBy(asc(artifacts.name))
    .all();
  const attemptsByJob = Map.groupBy(attemptRows, (row) => row.jobId);
  const artifactsByAttempt = Map.groupBy(artifactRows, (row) => row.attemptId);
  return rows.map((row) =>
    toJob(row, attemptsByJob.get(row.id) ?? [], artifactsByAttempt.get(row.attemptId ?? "") ?? []),
  );
}

/** What the columns say of the end; null until the job is finished. */
function outcomeOf(row: JobRow): Outcome | null {
  if (row.state !== "finished") return null;
  assert(row.endReason !== null, `finished job ${row.id} has no end reason`);
  return {
    status: REASONS[row.endReason].status,
    endReason: row.endReason,
    reward: row.reward,
    rewards: row.rewards ?? {},
    trainable: row.trainable,
    grading: row.grading,
    error: row.error,
    turns: row.turns,
    promptTokens: row.promptTokens,
    sampledTokens: row.sampledTokens,
    policyVersionMin: row.policyVersionMin,
    policyVersionMax: row.policyVersionMax,
    ledger: row.ledger ?? "exact",
  };
}

function toJob(row: JobRow, attemptRows: readonly AttemptRow[], artifactRows: readonly ArtifactRow[]): Job {
  return {
    id: row.id,
    groupId: row.groupId,
    taskId: row.taskId,
    handler: row.handler,
    sample: row.sample,
    model: row.model,
    sampling: row.sampling,
    limits: row.limits,
    priority: row.priority,
    stream: row.stream,
    tokenExact: row.tokenExact,
    labels: row.labels,
    state: row.state,
    createdAtMs: row.createdAt,
    finishedAtMs: row.finishedAt,
    outcome: outcomeOf(row),
    timing: toTiming(row),
    attempts: attemptRows.map(toAttempt),
    artifacts: artifactRows.map(({ name, bytes }) => ({ name, bytes })),
  };
}

function toTiming(row: JobRow): JobTiming {
  return {
    queuedMs: row.queuedMs,
    initMs: row.initMs,
    readyMs: row.readyMs,
    runMs: row.runMs,
    llmMs: row.llmMs,
    toolMs: row.toolMs,
    awaitingEvalMs: row.awaitingEvalMs,
    evalMs: row.evalMs,
    totalMs: row.totalMs,
  };
}

function toAttempt(row: AttemptRow): Attempt {
  return {
    id: row.id,
    number: row.number,
    startedAtMs: row.startedAt,
    endedAtMs: row.endedAt,
    stage: row.stage,
    endReason: row.endReason,
    backendIds: row.backendIds,
    error: row.error,
  };
}

// Without the blobs: a listing of a thousand jobs does not read their conversations.
const attemptColumns = {
  id: attempts.id,
  jobId: attempts.jobId,
  number: attempts.number,
  trajectoryId: attempts.trajectoryId,
  startedAt: attempts.startedAt,
  endedAt: attempts.endedAt,
  stage: attempts.stage,
  endReason: attempts.endReason,
  backendIds: attempts.backendIds,
  error: attempts.error,
};
const artifactColumns = { attemptId: artifacts.attemptId, name: artifacts.name, bytes: artifacts.bytes };

const selectJob = once((db) =>
  db
    .select()
    .from(jobs)
    .where(eq(jobs.id, sql.placeholder("id")))
    .prepare(),
);
const selectAttempts = once((db) =>
  db
    .select(attemptColumns)
    .from(attempts)
    .where(eq(attempts.jobId, sql.placeholder("jobId")))
    .orderBy(asc(attempts.number))
    .prepare(),
);
const selectArtifacts = once((db) =>
  db
    .select(artifactColumns)
    .from(artifacts)
    .where(eq(artifacts.attemptId, sql.placeholder("attemptId")))
    .orderBy(asc(artifacts.name))
    .prepare(),
);
