import type { Clock } from "../clock.ts";
import { asRolloutError, REASONS, type Reason, type RolloutError } from "../errors.ts";
import type { Job } from "../job/job.ts";
import type { Stage } from "../job/state.ts";
import type { Backends } from "../llm/backends.ts";
import type { Log } from "../log.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import type { RunEnd, Store } from "../store/store.ts";
import type { Supervisor } from "../supervisor.ts";
import type { Registry } from "../tasks/registry.ts";
import type { LiveJob, LiveJobs } from "./live-job.ts";

/** Told of what happens, for metrics. Must not throw. */
export interface PipelineObserver {
  stageEnded(stage: Stage, ms: number): void;
  attemptFailed(stage: Stage, reason: Reason): void;
  turnEnded(turn: { model: string; promptTokens: number; sampledTokens: number; ms: number }): void;
  toolEnded(call: { tool: string; ms: number }): void;
  jobFinished(job: Job): void;
}

/** What every stage works with. */
export interface StageParts {
  store: Store;
  sandboxes: SandboxHost;
  backends: Backends;
  registry: Registry;
  live: LiveJobs;
  clock: Clock;
  log: Log;
  observer: PipelineObserver;
  supervisor: Supervisor;
}

/** The error that ended a stage: what aborted it when it was aborted, else what it threw. */
export function stageError(error: unknown, signal: AbortSignal, fallback: Reason): RolloutError {
  return asRolloutError(signal.aborted ? signal.reason : error, fallback);
}

/** Runs a handler's error hook; what the hook throws is logged, the first cause stays. */
export async function tellHandler(parts: StageParts, live: LiveJob, error: RolloutError): Promise<void> {
  const { handler, task, claimed, stage } = live;
  const hook = ({ init: "onInitError", run: "onRunError", eval: "onEvalError" } as const)[stage];
  try {
    await handler[hook]?.({ task, limits: claimed.job.limits, signal: live.signal, log: parts.log }, error);
  } catch (cause) {
    parts.log.warn("pipeline:error_hook_failed", { job_id: live.id, handler: handler.name, cause });
  }
}

/**
 * Writes down that an attempt ended without a grade: cancelled, queued again, or failed for good. `run` is what was
 * sampled before a cancellation.
 */
export async function endUngraded(
  parts: StageParts,
  live: LiveJob,
  error: RolloutError,
  run: RunEnd | null = null,
): Promise<void> {
  const { job, attemptId } = live.claimed;
  const { stage } = live;
  parts.log.info("pipeline:attempt_ended", { job_id: job.id, stage, reason: error.reason, detail: error.detail });
  if (REASONS[error.reason].status === "cancelled") {
    finished(parts, await parts.store.endCancelled({ jobId: job.id, attemptId, stage, run }));
    return;
  }
  parts.observer.attemptFailed(stage, error.reason);
  const end = { jobId: job.id, attemptId, stage, error, backendIds: run?.backendIds ?? [] };
  const aftermath = stage === "eval" ? await parts.store.failEval(end) : await parts.store.failAttempt(end);
  if (aftermath.kind === "finished") finished(parts, aftermath.job);
}

export function finished(parts: StageParts, job: Job): void {
  parts.observer.jobFinished(job);
  parts.live.finished(job.id);
}
