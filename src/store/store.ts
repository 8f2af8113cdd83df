import type { RolloutError } from "../errors.ts";
import type { Carry, Job, JobError, JobRequest, JobTiming, Outcome, Verdict } from "../job/job.ts";
import type { Stage, State } from "../job/state.ts";
import type { NetworkLog } from "../network-rule.ts";
import type { Branch } from "../trajectory/branch.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import type { ToolResult, TurnRecord } from "../trajectory/turn.ts";

/** A group to be made: `task` is its JSON text as it was sent, given back unchanged. */
export interface NewGroup {
  taskId: string;
  handler: string;
  taskJson: string;
  n: number;
  request: JobRequest;
}

export interface GroupIds {
  groupId: string;
  taskId: string;
  jobIds: readonly string[];
}

/** A job claimed for a stage: enough to work on it without another read. */
export interface ClaimedJob {
  job: Job;
  taskJson: string;
  attemptId: string;
  /** Of EVAL only: what RUN left. */
  carry: Carry | null;
}

export interface JobFilter {
  state?: State;
  handler?: string;
  groupId?: string;
  stream?: string;
  labels?: Readonly<Record<string, string>>;
  /** Job id to start after; ids sort by creation. */
  after?: string;
  limit: number;
}

export interface Group {
  id: string;
  taskId: string;
  taskJson: string;
  createdAtMs: number;
  jobs: readonly Job[];
}

/** What is stored of one attempt's trajectory. */
export interface StoredTrajectory {
  id: string;
  job: Job;
  attemptId: string;
  messages: readonly Message[];
  tools: readonly ToolSchema[];
  /** Null when the task's sandbox had no network. */
  network: NetworkLog | null;
  turns: readonly TurnRecord[];
  /** For each turn, the tools' answers. */
  toolResults: readonly (readonly ToolResult[])[];
  /** Empty until RUN has ended. */
  branches: readonly Branch[];
  model: {
    tokenizerHash: string;
    templateHash: string;
    renderer: "local" | "remote";
    logprobsMode: "raw" | "processed";
  } | null;
  evaluation: (Verdict & { attempt: number }) | null;
}

export interface ResultRow {
  seq: number;
  job: Job;
}

export interface Consumer {
  name: string;
  committed: number;
  updatedAtMs: number;
}

export interface StoredBackend {
  id: string;
  url: string;
  model: string;
  role: "policy" | "judge";
  kind: string;
  apiKey: string | null;
  weight: number;
  policyVersion: string;
  tokenizer: string | null;
  draining: boolean;
  profileJson: string | null;
  createdAtMs: number;
}

/** Events as the SSE stream tells them; `seq` is the resumable id. `data` is already in wire shape. */
export interface StoredEvent {
  seq: number;
  jobId: string;
  kind: "state" | "turn" | "tool" | "finished";
  data: Readonly<Record<string, unknown>>;
}

/** What a commit added: the jobs with new events, and whether one of them finished and entered the results log. */
export interface Commit {
  jobIds: ReadonlySet<string>;
  hasResults: boolean;
}

/** How RUN ended, written in one transaction with the move to `awaiting_eval` or, ungraded, to `finished`. */
export interface RunEnd {
  jobId: string;
  attemptId: string;
  carry: Carry;
  messages: readonly Message[];
  tools: readonly ToolSchema[];
  network: NetworkLog | null;
  branches: readonly Branch[];
  model: StoredTrajectory["model"];
  /** As far as it is known: without reward. */
  outcome: Outcome;
  timing: Partial<JobTiming>;
  backendIds: readonly string[];
}

export interface AttemptEnd {
  jobId: string;
  attemptId: string;
  stage: Stage;
  error: RolloutError;
  backendIds: readonly string[];
}

/** The same as it crosses to the Worker, where no error class survives. */
export type EndedAttempt = Omit<AttemptEnd, "error"> & { error: Pick<RolloutError, "reason" | "detail"> };

/** What became of a failed attempt. */
export type Aftermath = { kind: "retry"; notBeforeMs: number } | { kind: "finished"; job: Job };

/**
 * The durable state, as the main thread sees it: every method is one transaction in the store's Worker and resolves
 * after it is on disk. Methods reject with RolloutError store_failed when SQLite does.
 */
export interface Store extends AsyncDisposable {
  /** Resolves with the cause when the Worker is gone and nothing will be answered any more; never because of a close. */
  readonly died: Promise<Error>;
  /** With a key: the same body gives the ids of the first time (`repeated`). Throws RequestError idempotency_conflict. */
  submit(
    groups: readonly NewGroup[],
    idempotency: { key: string; bodyHash: string } | null,
  ): Promise<{ groups: readonly GroupIds[]; repeated: boolean }>;

  /** The next queued job by priority, then age, of one of `models`, with a new attempt; state becomes initializing. */
  claimQueued(models: readonly string[]): Promise<ClaimedJob | null>;
  claimAwaitingEval(): Promise<ClaimedJob | null>;
  moveJob(move: {
    jobId: string;
    attemptId: string;
    from: State;
    to: State;
    timing: Partial<JobTiming>;
  }): Promise<void>;
  saveTurn(turn: { jobId: string; attemptId: string; record: TurnRecord }): Promise<void>;
  saveToolResults(results: {
    jobId: string;
    attemptId: string;
    turn: number;
    results: readonly ToolResult[];
    /** What they left beside their answers; each name once in an attempt. */
    files: readonly { name: string; bytes: Uint8Array }[];
  }): Promise<void>;
  /** RUN has ended. The finished job when it is not to be graded or was cancelled meanwhile, else null: EVAL follows. */
  endRun(end: RunEnd): Promise<Job | null>;
  /** A graded job is finished and enters the results log; it is trainable when its ledger holds and tokens were sampled. */
  endEval(end: { jobId: string; attemptId: string; verdict: Verdict; timing: Partial<JobTiming> }): Promise<Job>;
  /** INIT or RUN failed: the attempt ends, and the job is queued again or finished as failed. */
  failAttempt(end: AttemptEnd): Promise<Aftermath>;
  /** EVAL failed: it alone is repeated, or the job is finished as failed; the paid tokens stay. */
  failEval(end: AttemptEnd): Promise<Aftermath>;
  /** Marks a job for cancellation. A job that nobody works on is finished at once; `live` means the caller must stop it. */
  requestCancel(jobId: string): Promise<{ kind: "finished" | "live" | "unknown" }>;
  /** Ends a live job without grading; what was sampled stays readable. */
  endCancelled(end: { jobId: string; attemptId: string; stage: Stage; run: RunEnd | null }): Promise<Job>;
  /** At start-up: attempts of the life before end as `server_restart`; interrupted evaluations wait for EVAL again. */
  recover(): Promise<{ requeued: number; evalsRepeated: number }>;

  job(id: string): Promise<Job | null>;
  jobs(filter: JobFilter): Promise<readonly Job[]>;
  group(id: string): Promise<Group | null>;
  trajectory(jobId: string): Promise<StoredTrajectory | null>;
  artifact(jobId: string, name: string): Promise<Uint8Array | null>;
  counts(): Promise<Readonly<Record<State, number>>>;

  /** Finished jobs in commit order after `after`. Throws RequestError results_expired when `after` lies before what is kept. */
  results(query: {
    after: number;
    limit: number;
    stream: string | null;
    groupId: string | null;
  }): Promise<{ rows: readonly ResultRow[]; first: number; last: number }>;
  /** Takes results before the sequence number `first` out of the log; their jobs stay readable. */
  expireResults(first: number): Promise<void>;
  putConsumer(name: string, committed: number): Promise<Consumer>;
  consumers(): Promise<readonly Consumer[]>;
  deleteConsumer(name: string): Promise<boolean>;

  events(query: { jobId: string | null; after: number; limit: number }): Promise<readonly StoredEvent[]>;
  /** Of the newest event, 0 when there was none: where a stream begins that wants only what is to come. */
  lastEventSeq(): Promise<number>;
  /** Called after each commit that added events or results; must not throw. Returns how to stop. */
  onCommit(listener: (commit: Commit) => void): () => void;

  putBackend(backend: StoredBackend): Promise<void>;
  backends(): Promise<readonly StoredBackend[]>;
  deleteBackend(id: string): Promise<boolean>;
}

export type { JobError };
