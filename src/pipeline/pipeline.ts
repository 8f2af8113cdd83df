import { RequestError, RolloutError } from "../errors.ts";
import type { Job } from "../job/job.ts";
import { defaultsWithin, type JobLimits, type LimitsMax } from "../job/limits.ts";
import type { Stage } from "../job/state.ts";
import { LIMITS } from "../limits.ts";
import type { ClaimedJob, Group } from "../store/store.ts";
import { runEval } from "./eval-stage.ts";
import { describeHandlers } from "./handler-info.ts";
import { runInit } from "./init-stage.ts";
import { LiveJob } from "./live-job.ts";
import { Outages } from "./outages.ts";
import { Pool } from "./pool.ts";
import type { HandlerInfo, PipelineStatus, Rollouts, Submission } from "./rollouts.ts";
import { runRun } from "./run-stage.ts";
import { closeSandbox, endUngraded, type PipelineParts, type StageParts, writeFailure } from "./stage-parts.ts";
import { planSubmission } from "./submit.ts";

export interface PipelineLimits {
  initWorkers: number;
  runWorkers: number;
  evalWorkers: number;
  /** Jobs whose sandbox is made but whose agent has not started. */
  readyMax: number;
  /** All sandboxes at once, graders included; `evalReserve` of them are kept for EVAL. */
  sandboxesMax: number;
  evalReserve: number;
  /** What a job may ask for at most. */
  limitsMax: LimitsMax;
  /** What a handler that ignores its signal is waited for; LIMITS.handlerGraceMs when absent. */
  handlerGraceMs?: number;
}

/**
 * INIT, RUN and EVAL as three pools over the store. INIT and EVAL claim from the store; RUN takes from the `ready`
 * buffer in memory, because a ready job's sandbox lives in this process: by priority, then age.
 */
export class Pipeline implements Rollouts {
  readonly #parts: StageParts;
  readonly #limits: PipelineLimits;
  readonly #stopping = new AbortController();
  readonly #ready: LiveJob[] = [];
  /** Claims for INIT on their way to the store: each may come back with a job that wants a sandbox. */
  #initClaims = 0;
  readonly #init: Pool<LiveJob>;
  readonly #run: Pool<LiveJob>;
  readonly #eval: Pool<LiveJob>;
  readonly #stopListening: () => void;
  #hasStarted = false;

  /** Claims nothing before `start`. */
  constructor(given: PipelineParts, limits: PipelineLimits) {
    const { handlerGraceMs = LIMITS.handlerGraceMs } = limits;
    const outages = new Outages(given.backends, given.clock);
    const parts = { ...given, stopping: this.#stopping.signal, outages, handlerGraceMs };
    this.#parts = parts;
    this.#limits = limits;
    const pool = (slots: number, claim: () => Promise<LiveJob | null>, work: (job: LiveJob) => Promise<void>) =>
      new Pool<LiveJob>(
        {
          claim,
          work: (job, stop) => this.#occupied(job, stop, work),
          onThrow: (cause) => parts.log.error("pipeline:slot_failed", { cause }),
        },
        parts.clock,
        { slots, idleMs: LIMITS.poolIdleMs },
      );
    this.#init = pool(
      limits.initWorkers,
      () => this.#claimInit(),
      (job) => this.#workInit(job),
    );
    this.#run = pool(
      limits.runWorkers,
      () => this.#claimRun(),
      (job) => this.#workRun(job),
    );
    this.#eval = pool(
      limits.evalWorkers,
      () => this.#claimEval(),
      (job) => this.#workEval(job),
    );
    this.#stopListening = parts.backends.onChange(() => this.#init.wake());
  }

  /** Begins to work on what is queued: recover the store first. */
  start(): void {
    const { supervisor, outages, stopping } = this.#parts;
    supervisor.own("pipeline:outages", outages.watch(stopping));
    this.#hasStarted = true;
    for (const pool of [this.#init, this.#run, this.#eval]) pool.wake();
  }

  async submit(submission: Submission) {
    const { store, registry, sandboxes } = this.#parts;
    const images = sandboxes.images().map((image) => image.name);
    const groups = planSubmission(submission, { registry, images, limitsMax: this.#limits.limitsMax });
    const submitted = await store.submit(groups, submission.idempotency);
    this.#init.wake();
    return submitted;
  }

  async cancelJob(jobId: string): Promise<Job> {
    const { store, live } = this.#parts;
    const done = Promise.withResolvers<void>();
    const stopWaiting = live.onFinished(jobId, done.resolve);
    try {
      const { kind } = await store.requestCancel(jobId);
      if (kind === "unknown") throw new RequestError("job_unknown", `no job has the id ${jobId}`);
      if (kind === "live") {
        live.cancel(jobId);
        await done.promise;
      }
      const job = await this.#jobOrThrow(jobId);
      if (job.state === "finished") {
        live.finished(jobId);
        return job;
      }
      throw new RolloutError("store_failed", `the end of job ${jobId} could not be written down`);
    } finally {
      stopWaiting();
    }
  }

  async cancelGroup(groupId: string): Promise<Group> {
    const group = await this.#parts.store.group(groupId);
    if (group === null) throw new RequestError("group_unknown", `no group has the id ${groupId}`);
    await Promise.all(group.jobs.map((job) => this.cancelJob(job.id)));
    return (await this.#parts.store.group(groupId)) ?? group;
  }

  async waitForJob(jobId: string, waitMs: number, signal: AbortSignal): Promise<Job> {
    const { live, clock } = this.#parts;
    const stop = new AbortController();
    const stopWaiting = live.onFinished(jobId, () => stop.abort());
    try {
      const job = await this.#jobOrThrow(jobId);
      if (job.state === "finished" || waitMs === 0) return job;
      await clock.sleep(waitMs, AbortSignal.any([stop.signal, signal]));
      return await this.#jobOrThrow(jobId);
    } finally {
      stopWaiting();
    }
  }

  handlers(): readonly HandlerInfo[] {
    return describeHandlers(this.#parts.registry);
  }

  images() {
    return this.#parts.sandboxes.images();
  }

  limitDefaults(): JobLimits {
    return defaultsWithin(this.#limits.limitsMax);
  }

  status(): PipelineStatus {
    const pool = ({ slots, busy }: { slots: number; busy: number }) => ({ slots, busy });
    const { live, warm, enforcement } = this.#parts.sandboxes;
    const { sandboxesMax: max, evalReserve } = this.#limits;
    return {
      pools: { init: pool(this.#init), run: pool(this.#run), eval: pool(this.#eval) },
      ready: this.#ready.length,
      sandboxes: { live, warm, enforcement, max, evalReserve },
    };
  }

  /** Stops claiming, gives work in hand `graceMs`, then interrupts it; interrupted jobs are queued again. */
  async drain(graceMs: number): Promise<void> {
    this.#stopListening();
    const drained = [this.#init.drain(graceMs), this.#run.drain(graceMs), this.#eval.drain(graceMs)];
    await Promise.all(drained);
    this.#stopping.abort();
    for (const job of this.#ready.splice(0)) await this.#dropReady(job, RESTART);
  }

  /** Interrupts a job in hand when the drain's grace is over. */
  async #occupied(job: LiveJob, stop: AbortSignal, work: (job: LiveJob) => Promise<void>): Promise<void> {
    const onStop = () => {
      job.end(RESTART);
      this.#stopping.abort();
    };
    stop.addEventListener("abort", onStop, { once: true });
    if (stop.aborted) onStop();
    try {
      await work(job);
    } finally {
      stop.removeEventListener("abort", onStop);
    }
  }

  async #claimInit(): Promise<LiveJob | null> {
    const { store, backends, live } = this.#parts;
    const { sandboxesMax, evalReserve, readyMax } = this.#limits;
    if (!this.#hasStarted) return null;
    const agents = live.agents + this.#initClaims;
    if (this.#ready.length >= readyMax || agents >= sandboxesMax - evalReserve) return null;
    const models = backends.models();
    if (models.length === 0) return null;
    this.#initClaims += 1;
    try {
      const claimed = await store.claimQueued(models);
      return claimed === null ? null : await this.#open(claimed, "init");
    } finally {
      this.#initClaims -= 1;
    }
  }

  #claimRun(): Promise<LiveJob | null> {
    const next = this.#ready.toSorted(byPriorityThenAge)[0];
    if (next) this.#ready.splice(this.#ready.indexOf(next), 1);
    if (next) this.#init.wake();
    return Promise.resolve(next ?? null);
  }

  async #claimEval(): Promise<LiveJob | null> {
    const claimed = this.#hasStarted ? await this.#parts.store.claimAwaitingEval() : null;
    return claimed === null ? null : this.#open(claimed, "eval");
  }

  /** Takes a claimed job into memory. Its task was accepted at submission; a server that no longer does ends it. */
  async #open(claimed: ClaimedJob, stage: Stage): Promise<LiveJob | null> {
    const { registry, live } = this.#parts;
    try {
      const job = new LiveJob(claimed, stage, registry.parse(JSON.parse(claimed.taskJson)));
      live.add(job);
      return job;
    } catch (cause) {
      const error = new RolloutError("task_invalid", String(cause), { cause });
      const { attemptId } = claimed;
      await writeFailure(this.#parts, { jobId: claimed.job.id, attemptId, stage, error, backendIds: [] });
      return null;
    }
  }

  async #workInit(job: LiveJob): Promise<void> {
    let isReady = false;
    try {
      isReady = await runInit(this.#parts, job);
    } finally {
      if (!isReady) this.#parts.live.remove(job);
    }
    if (!isReady) return;
    this.#ready.push(job);
    job.signal.addEventListener("abort", () => this.#onReadyEnded(job), { once: true });
    if (job.signal.aborted) this.#onReadyEnded(job);
    this.#run.wake();
  }

  async #workRun(job: LiveJob): Promise<void> {
    job.stage = "run";
    try {
      await runRun(this.#parts, job);
    } finally {
      this.#parts.live.remove(job);
    }
    this.#eval.wake();
    this.#init.wake();
  }

  async #workEval(job: LiveJob): Promise<void> {
    try {
      await runEval(this.#parts, job);
    } finally {
      this.#parts.live.remove(job);
    }
  }

  /** A job cancelled while it waits in `ready`: nobody works on it, so it is ended here. */
  #onReadyEnded(job: LiveJob): void {
    const at = this.#ready.indexOf(job);
    if (at < 0) return;
    this.#ready.splice(at, 1);
    const error = job.signal.reason instanceof RolloutError ? job.signal.reason : RESTART;
    this.#parts.supervisor.own("pipeline:drop_ready", this.#dropReady(job, error));
  }

  async #dropReady(job: LiveJob, error: RolloutError): Promise<void> {
    await closeSandbox(this.#parts, job);
    try {
      await endUngraded(this.#parts, job, error);
    } finally {
      this.#parts.live.remove(job);
    }
    this.#init.wake();
  }

  async #jobOrThrow(jobId: string): Promise<Job> {
    const job = await this.#parts.store.job(jobId);
    if (job === null) throw new RequestError("job_unknown", `no job has the id ${jobId}`);
    return job;
  }
}

function byPriorityThenAge(left: LiveJob, right: LiveJob): number {
  const [a, b] = [left.claimed.job, right.claimed.job];
  return b.priority - a.priority || (a.id < b.id ? -1 : 1);
}

const RESTART = new RolloutError("server_restart", "the server was stopped");
