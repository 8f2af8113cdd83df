/**
 * The tables, and the only place that knows column names. Times are epoch ms, durations ms. After a change here: `bun run migrate`, and commit what it writes.
 */
import { sql } from "drizzle-orm";
import { index, integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Reason } from "../errors.ts";
import type { Grading, JobError, LedgerVerdict } from "../job/job.ts";
import type { JobLimits } from "../job/limits.ts";
import type { Stage, State } from "../job/state.ts";
import type { NetworkLog } from "../network-rule.ts";
import type { BranchTurn } from "../trajectory/branch.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { FinishReason, ToolResult, VersionSpan } from "../trajectory/turn.ts";
import { flag, json, packedArrays, packedBytes, packedJson, packedText } from "./columns.ts";
import type { GroupIds, StoredEvent, StoredTrajectory } from "./store.ts";

export const groups = sqliteTable("groups", {
  id: text("id").primaryKey(),
  taskId: text("task_id").notNull(),
  handler: text("handler").notNull(),
  /** As it was sent. */
  task: packedText("task").notNull(),
  size: integer("size").notNull(),
  stream: text("stream"),
  createdAt: integer("created_at").notNull(),
});

export const jobs = sqliteTable(
  "jobs",
  {
    id: text("id").primaryKey(),
    groupId: text("group_id")
      .notNull()
      .references(() => groups.id),
    taskId: text("task_id").notNull(),
    handler: text("handler").notNull(),
    sample: integer("sample").notNull(),
    model: text("model").notNull(),
    tokenExact: flag("token_exact").notNull().default(true),
    stream: text("stream"),
    priority: integer("priority").notNull(),
    labels: json<Record<string, string>>("labels").notNull(),
    sampling: json<Sampling>("sampling").notNull(),
    limits: json<JobLimits>("limits").notNull(),
    state: text("state").$type<State>().notNull(),
    stateSince: integer("state_since").notNull(),
    createdAt: integer("created_at").notNull(),
    finishedAt: integer("finished_at"),
    /** A retry is not claimed before this time. */
    notBefore: integer("not_before"),
    cancelRequested: flag("cancel_requested").notNull().default(false),
    /** The current attempt, or the last one. */
    attemptId: text("attempt_id"),
    /** Failed tries that count against `limits.attempts_max`. */
    attemptsCounted: integer("attempts_counted").notNull().default(0),
    evaluationsCounted: integer("evaluations_counted").notNull().default(0),
    endReason: text("end_reason").$type<Reason>(),
    error: json<JobError>("error"),
    reward: real("reward"),
    rewards: json<Record<string, number>>("rewards"),
    trainable: flag("trainable").notNull().default(false),
    grading: text("grading").$type<Grading>(),
    turns: integer("turns").notNull().default(0),
    promptTokens: integer("prompt_tokens").notNull().default(0),
    sampledTokens: integer("sampled_tokens").notNull().default(0),
    policyVersionMin: text("policy_version_min"),
    policyVersionMax: text("policy_version_max"),
    /** Null until RUN has ended. */
    ledger: text("ledger").$type<LedgerVerdict>(),
    queuedMs: real("queued_ms").notNull().default(0),
    initMs: real("init_ms").notNull().default(0),
    readyMs: real("ready_ms").notNull().default(0),
    runMs: real("run_ms").notNull().default(0),
    llmMs: real("llm_ms").notNull().default(0),
    toolMs: real("tool_ms").notNull().default(0),
    awaitingEvalMs: real("awaiting_eval_ms").notNull().default(0),
    evalMs: real("eval_ms").notNull().default(0),
    totalMs: real("total_ms").notNull().default(0),
  },
  (t) => [
    // Partial, in claim order and covering: 23 us a claim with 20k queued, where a plain index on state sorts for 15 ms.
    index("jobs_claim")
      .on(t.model, sql`${t.priority} desc`, t.createdAt, t.id, t.notBefore)
      .where(sql`${t.state} = 'queued'`),
    index("jobs_claim_eval").on(sql`${t.priority} desc`, t.createdAt, t.id).where(sql`${t.state} = 'awaiting_eval'`),
    index("jobs_retry").on(t.notBefore).where(sql`${t.notBefore} is not null`),
    index("jobs_unfinished").on(t.state, t.id).where(sql`${t.state} <> 'finished'`),
    index("jobs_group").on(t.groupId, t.sample),
    index("jobs_stream").on(t.stream, t.id),
  ],
);

/** Jobs in each state, kept by the verbs so that a scrape does not count rows. */
export const jobCounts = sqliteTable("job_counts", {
  state: text("state").$type<State>().primaryKey(),
  jobs: integer("jobs").notNull(),
});

/** Idempotency keys and what was answered. */
export const requests = sqliteTable("requests", {
  key: text("key").primaryKey(),
  bodyHash: text("body_hash").notNull(),
  groups: json<readonly GroupIds[]>("groups").notNull(),
  createdAt: integer("created_at").notNull(),
});

export const attempts = sqliteTable(
  "attempts",
  {
    id: text("id").primaryKey(),
    jobId: text("job_id")
      .notNull()
      .references(() => jobs.id),
    /** From 1. */
    number: integer("number").notNull(),
    trajectoryId: text("trajectory_id").notNull(),
    startedAt: integer("started_at").notNull(),
    endedAt: integer("ended_at"),
    stage: text("stage").$type<Stage>().notNull(),
    endReason: text("end_reason").$type<Reason>(),
    backendIds: json<readonly string[]>("backend_ids").notNull(),
    error: json<JobError>("error"),
    messages: packedJson<readonly Message[]>("messages"),
    tools: packedJson<readonly ToolSchema[]>("tools"),
    modelInfo: json<NonNullable<StoredTrajectory["model"]>>("model_info"),
    /** What the sandbox asked of the network; null when it had none. */
    network: packedJson<NetworkLog>("network"),
    /** `{answer}`; artifacts are rows of their own. Null until RUN has ended. */
    carry: packedJson<{ answer: string | null }>("carry"),
  },
  (t) => [index("attempts_job").on(t.jobId, t.number)],
);

/** The raw record of each model call, as it came. */
export const turns = sqliteTable(
  "turns",
  {
    attemptId: text("attempt_id")
      .notNull()
      .references(() => attempts.id),
    number: integer("number").notNull(),
    branch: integer("branch").notNull(),
    parent: integer("parent"),
    contextStart: integer("context_start").notNull(),
    drift: text("drift").$type<"clean" | "fork">().notNull(),
    promptTokens: integer("prompt_tokens").notNull(),
    sampledTokens: integer("sampled_tokens").notNull(),
    arrays: packedArrays("arrays").notNull(),
    versions: json<readonly VersionSpan[]>("versions").notNull(),
    sampling: json<Sampling>("sampling").notNull(),
    finishReason: text("finish_reason").$type<FinishReason>().notNull(),
    stopReason: json<number | string>("stop_reason"),
    promptMessages: packedJson<readonly Message[]>("prompt_messages").notNull(),
    messageIndex: integer("message_index").notNull(),
    message: packedJson<Message>("message").notNull(),
    parse: text("parse").$type<"ok" | "none" | "malformed">().notNull(),
    backendId: text("backend_id").notNull(),
    requestId: text("request_id").notNull(),
    endpoint: text("endpoint").notNull(),
    cachedTokens: integer("cached_tokens"),
    queueMs: real("queue_ms").notNull(),
    firstTokenMs: real("first_token_ms"),
    generationMs: real("generation_ms").notNull(),
    hash: text("hash").notNull(),
    toolResults: packedJson<readonly ToolResult[]>("tool_results"),
  },
  (t) => [primaryKey({ columns: [t.attemptId, t.number] })],
);

export const branches = sqliteTable(
  "branches",
  {
    attemptId: text("attempt_id")
      .notNull()
      .references(() => attempts.id),
    number: integer("number").notNull(),
    parent: integer("parent"),
    sharedTokens: integer("shared_tokens").notNull(),
    promptTokens: integer("prompt_tokens").notNull(),
    tokens: integer("tokens").notNull(),
    arrays: packedArrays("arrays").notNull(),
    versions: json<readonly VersionSpan[]>("versions").notNull(),
    turns: json<readonly BranchTurn[]>("turns").notNull(),
  },
  (t) => [primaryKey({ columns: [t.attemptId, t.number] })],
);

/** Each try of EVAL; the one without `ended_at` is at work. */
export const evaluations = sqliteTable(
  "evaluations",
  {
    id: text("id").primaryKey(),
    jobId: text("job_id")
      .notNull()
      .references(() => jobs.id),
    attemptId: text("attempt_id")
      .notNull()
      .references(() => attempts.id),
    number: integer("number").notNull(),
    startedAt: integer("started_at").notNull(),
    endedAt: integer("ended_at"),
    /** Null while at work and when a verdict was given. */
    error: json<JobError>("error"),
    reward: real("reward"),
    rewards: json<Record<string, number>>("rewards"),
    report: packedJson<Record<string, unknown>>("report"),
    log: packedText("log"),
    grading: text("grading").$type<Grading>(),
  },
  (t) => [index("evaluations_attempt").on(t.attemptId, t.number)],
);

export const artifacts = sqliteTable(
  "artifacts",
  {
    attemptId: text("attempt_id")
      .notNull()
      .references(() => attempts.id),
    name: text("name").notNull(),
    bytes: integer("bytes").notNull(),
    content: packedBytes("content").notNull(),
    /** Left by a tool for people and trainers; others are files of the sandbox that EVAL gets. */
    fromTool: flag("from_tool").notNull().default(false),
  },
  (t) => [primaryKey({ columns: [t.attemptId, t.name] })],
);

/** Finished jobs in commit order. */
export const results = sqliteTable(
  "results",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    jobId: text("job_id")
      .notNull()
      .unique()
      .references(() => jobs.id),
    groupId: text("group_id").notNull(),
    stream: text("stream"),
  },
  (t) => [index("results_stream").on(t.stream, t.seq), index("results_group").on(t.groupId, t.seq)],
);

export const consumers = sqliteTable("consumers", {
  name: text("name").primaryKey(),
  committed: integer("committed").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const backends = sqliteTable("backends", {
  id: text("id").primaryKey(),
  url: text("url").notNull(),
  model: text("model").notNull(),
  role: text("role").$type<"policy" | "judge">().notNull(),
  kind: text("kind").notNull(),
  apiKey: text("api_key"),
  weight: real("weight").notNull(),
  policyVersion: text("policy_version").notNull(),
  tokenizer: text("tokenizer"),
  draining: flag("draining").notNull(),
  profile: text("profile"),
  createdAt: integer("created_at").notNull(),
});

export const events = sqliteTable(
  "events",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    jobId: text("job_id").notNull(),
    kind: text("kind").$type<StoredEvent["kind"]>().notNull(),
    data: json<Record<string, unknown>>("data").notNull(),
  },
  (t) => [index("events_job").on(t.jobId, t.seq)],
);

/** Single values, such as `results_first`. */
export const meta = sqliteTable("meta", {
  key: text("key").primaryKey(),
  value: text("value").notNull(),
});
