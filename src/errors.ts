/**
 * Why a job ended, or why a request was refused. Every failure that leaves a folder is one of these, so callers
 * branch on `reason` and never on text.
 */

/** Who is to blame, and what follows from it (design section 3). `graded` is whether EVAL runs on what there is. */
export const REASONS = {
  answered: { blame: "none", graded: true, status: "completed", retry: "never" },
  turns_max: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  tokens_max: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  context_overflow: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  run_timeout: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  format_errors: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  repetition: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  sandbox_limit: { blame: "policy", graded: true, status: "truncated", retry: "never" },
  cancelled: { blame: "none", graded: false, status: "cancelled", retry: "never" },
  surplus: { blame: "none", graded: false, status: "cancelled", retry: "never" },
  lag_exceeded: { blame: "none", graded: false, status: "cancelled", retry: "never" },
  init_timeout: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  eval_timeout: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  sandbox_lost: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  image_missing: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  store_failed: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  grader_unreachable: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  backend_unreachable: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  backend_invalid: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  backend_timeout: { blame: "infra", graded: false, status: "failed", retry: "attempts" },
  handler_error: { blame: "task", graded: false, status: "failed", retry: "once" },
  task_invalid: { blame: "task", graded: false, status: "failed", retry: "once" },
  server_restart: { blame: "infra", graded: false, status: "failed", retry: "always" },
} as const satisfies Record<string, ReasonRule>;

export type Reason = keyof typeof REASONS;
export type Blame = "none" | "policy" | "infra" | "task";
export type Status = "completed" | "truncated" | "cancelled" | "failed";

interface ReasonRule {
  blame: Blame;
  graded: boolean;
  status: Status;
  /** `attempts`: until `attempts_max`; `once`: one more try; `always`: without counting as an attempt. */
  retry: "never" | "once" | "attempts" | "always";
}

/** What ends a job or an attempt. The only error about a job's work that crosses a folder boundary. */
export class RolloutError extends Error {
  constructor(
    readonly reason: Reason,
    readonly detail: string,
    options?: ErrorOptions,
  ) {
    super(`${reason}: ${detail}`, options);
    this.name = "RolloutError";
  }
}

/** Status of the answer to a request that asks for what cannot be done; the keys are stable wire names. */
export const REQUEST_REASONS = {
  body_unreadable: 400,
  token_missing: 401,
  token_wrong: 403,
  host_refused: 403,
  origin_refused: 403,
  route_unknown: 404,
  job_unknown: 404,
  group_unknown: 404,
  backend_unknown: 404,
  consumer_unknown: 404,
  artifact_unknown: 404,
  image_absent: 404,
  method_refused: 405,
  job_unfinished: 409,
  idempotency_conflict: 409,
  backend_busy: 409,
  backend_mixed: 409,
  image_busy: 409,
  results_expired: 410,
  body_too_large: 413,
  field_invalid: 422,
  field_unknown: 422,
  task_invalid: 422,
  task_duplicate: 422,
  handler_unknown: 422,
  image_unknown: 422,
  queue_full: 429,
  builds_full: 429,
  streams_full: 429,
} as const;

export type RequestReason = keyof typeof REQUEST_REASONS;

/** One thing wrong with an input: where, what, and what would be accepted. */
export interface InputFault {
  /** Dotted, from the body's root: `tasks.6.answer`. Empty for the whole body. */
  path: string;
  message: string;
  accepted?: string;
}

/** A request that is refused by the caller's fault; nothing was changed. */
export class RequestError extends Error {
  constructor(
    readonly reason: RequestReason,
    readonly detail: string,
    readonly faults: readonly InputFault[] = [],
    /** Extra members of the problem document, such as `first` of an expired results log. */
    readonly members: Readonly<Record<string, unknown>> = {},
  ) {
    super(`${reason}: ${detail}`);
    this.name = "RequestError";
  }
}

/** Whatever was thrown, as the error that ends an attempt: the first cause is kept, the unknown is `fallback`. */
export function asRolloutError(cause: unknown, fallback: Reason): RolloutError {
  if (cause instanceof RolloutError) return cause;
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new RolloutError(fallback, detail, { cause });
}

/** Stops the program on a programmer's mistake; never used for input or for what the world may do. */
export function assert(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${message}`);
}
