import type { Blame, Reason, Status } from "../errors.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { JobLimits } from "./limits.ts";
import type { Stage, State } from "./state.ts";

/** What a submission asks for each of its jobs. */
export interface JobRequest {
  model: string;
  /** False takes also servers of text alone, whose turns cannot be trained on as they are. */
  tokenExact: boolean;
  sampling: Sampling;
  limits: JobLimits;
  priority: number;
  stream: string | null;
  labels: Readonly<Record<string, string>>;
}

export interface JobError {
  reason: Reason;
  blame: Blame;
  stage: Stage;
  detail: string;
}

export type LedgerVerdict = "exact" | "forked" | "text" | "rejected";
export type Grading = "separate" | "shared_process";

/** How a job ended. `reward` is null unless a grader gave it. */
export interface Outcome {
  status: Status;
  endReason: Reason;
  reward: number | null;
  rewards: Readonly<Record<string, number>>;
  trainable: boolean;
  grading: Grading | null;
  error: JobError | null;
  turns: number;
  promptTokens: number;
  sampledTokens: number;
  policyVersionMin: string | null;
  policyVersionMax: string | null;
  ledger: LedgerVerdict;
}

/** Milliseconds of each part of a job's life; of the attempt that counted, except `queuedMs` and `totalMs`. */
export interface JobTiming {
  queuedMs: number;
  initMs: number;
  readyMs: number;
  runMs: number;
  llmMs: number;
  toolMs: number;
  awaitingEvalMs: number;
  evalMs: number;
  totalMs: number;
}

export interface Attempt {
  id: string;
  number: number;
  startedAtMs: number;
  endedAtMs: number | null;
  stage: Stage;
  endReason: Reason | null;
  backendIds: readonly string[];
  error: JobError | null;
}

export interface Job extends JobRequest {
  id: string;
  groupId: string;
  taskId: string;
  handler: string;
  /** Position among its siblings, from 0. */
  sample: number;
  state: State;
  createdAtMs: number;
  finishedAtMs: number | null;
  outcome: Outcome | null;
  timing: JobTiming;
  attempts: readonly Attempt[];
  artifacts: readonly { name: string; bytes: number }[];
}

/** What goes from RUN to EVAL, and nothing else. */
export interface Carry {
  /** From `finish`, or the last assistant message. Null when the agent said nothing. */
  answer: string | null;
  artifacts: readonly { name: string; bytes: Uint8Array }[];
}

export const EMPTY_CARRY: Carry = { answer: null, artifacts: [] };

/** What a grader says. `reward` is finite. */
export interface Verdict {
  reward: number;
  rewards: Readonly<Record<string, number>>;
  report: Readonly<Record<string, unknown>>;
  /** For people; bounded by LIMITS.outputBytesMax. */
  log: string;
  grading: Grading;
}
