import { type Clock, deadline } from "../clock.ts";
import { asRolloutError, REASONS, type Reason, RolloutError } from "../errors.ts";
import type { Job } from "../job/job.ts";
import type { Stage } from "../job/state.ts";
import { LIMITS } from "../limits.ts";
import type { Backends } from "../llm/backends.ts";
import type { Log } from "../log.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import type { Aftermath, RunEnd, Store } from "../store/store.ts";
import type { Supervisor } from "../supervisor.ts";
import type { Registry } from "../tasks/registry.ts";
import { heed } from "./heed.ts";
import type { LiveJob, LiveJobs } from "./live-job.ts";
import type { Outages } from "./outages.ts";

/** Told of what happens, for metrics. Must not throw. */
export interface PipelineObserver {
  stageEnded(stage: Stage, ms: number): void;
  attemptFailed(stage: Stage, reason: Reason): void;
  turnEnded(turn: { model: string; promptTokens: number; sampledTokens: number; ms: number }): void;
  toolEnded(call: { tool: string; ms: number }): void;
  jobFinished(job: Job): void;
}

/** What a pipeline is built of. */
export interface PipelineParts {
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

/** What every stage works with. */
export interface StageParts extends PipelineParts {
  /** Aborts when the drain's grace is over: nothing is tried again after that. */
  stopping: AbortSignal;
  outages: Outages;
  /** What a handler that ignores its signal is waited for. */
  handlerGraceMs: number;
}

/** The error that ended a stage: what aborted it when it was aborted, else what it threw. */
export function stageError(error: unknown, signal: AbortSignal, fallback: Reason): RolloutError {
  return asRolloutError(signal.aborted ? signal.reason : error, fallback);
}

/** Runs a handler's error hook, for `handlerGraceMs` at most; what the hook throws is logged, the first cause stays. */
export async function tellHandler(parts: StageParts, live: LiveJob, error: RolloutError): Promise<void> {
  const { handler, task, claimed, stage } = live;
  const hook = ({ init: "onInitError", run: "onRunError", eval: "onEvalError" } as const)[stage];
  if (handler[hook] === undefined) return;
  const { clock, log, handlerGraceMs } = parts;
  const late = new Error(`${hook} took longer than ${handlerGraceMs} ms`);
  const timer = deadline(clock, handlerGraceMs, new AbortController().signal, late);
  const { signal } = timer;
  try {
    const told = handler[hook]({ task, limits: claimed.job.limits, signal, log }, error);
    await heed(told, { signal, clock, graceMs: 0 });
  } catch (cause) {
    log.warn("pipeline:error_hook_failed", { job_id: live.id, handler: handler.name, cause });
  } finally {
    await timer.release();
  }
}

/** Closes a live job's sandbox, if it has one. Never rejects: how a job ended must be written down all the same. */
export async function closeSandbox(parts: StageParts, live: LiveJob): Promise<void> {
  const { sandbox } = live;
  live.sandbox = null;
  try {
    await sandbox?.close();
  } catch (cause) {
    parts.log.error("pipeline:sandbox_close_failed", { job_id: live.id, sandbox: sandbox?.id, cause });
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
  const at = { jobId: job.id, attemptId, stage };
  parts.log.info("pipeline:attempt_ended", { job_id: job.id, stage, reason: error.reason, detail: error.detail });
  if (REASONS[error.reason].status === "cancelled") {
    await writeEnd(parts, job.id, async () => ({
      kind: "finished",
      job: await parts.store.endCancelled({ ...at, run }),
    }));
    return;
  }
  parts.observer.attemptFailed(stage, error.reason);
  await writeFailure(parts, { ...at, error, backendIds: run?.backendIds ?? [] });
}

/** Writes down that an attempt or an evaluation failed; what follows from it is the store's to say. */
export function writeFailure(parts: StageParts, end: Parameters<Store["failAttempt"]>[0]): Promise<void> {
  const { store } = parts;
  return writeEnd(parts, end.jobId, () => (end.stage === "eval" ? store.failEval(end) : store.failAttempt(end)));
}

/**
 * Writes an end until the store takes it: an attempt whose end nobody wrote would stay live for ever, and who waits for
 * the job with it. Given up only when the server stops, since the next start repairs the row, or for what no
 * repetition mends; who waits is woken then too.
 */
async function writeEnd(parts: StageParts, jobId: string, write: () => Promise<Aftermath>): Promise<void> {
  const { clock, log, live, stopping } = parts;
  for (let delayMs: number = LIMITS.endRetryMs; ; delayMs = Math.min(2 * delayMs, LIMITS.endRetryMsMax)) {
    try {
      const aftermath = await write();
      if (aftermath.kind === "finished") finished(parts, aftermath.job);
      return;
    } catch (cause) {
      log.error("pipeline:end_not_written", { job_id: jobId, retry_ms: delayMs, cause });
      const isPassing = cause instanceof RolloutError && cause.reason === "store_failed";
      if (!isPassing || stopping.aborted) {
        live.finished(jobId);
        throw cause;
      }
    }
    await clock.sleep(delayMs, stopping);
  }
}

export function finished(parts: StageParts, job: Job): void {
  parts.observer.jobFinished(job);
  parts.live.finished(job.id);
}
