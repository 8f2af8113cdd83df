import { RolloutError } from "../errors.ts";
import type { Stage } from "../job/state.ts";
import type { Task } from "../job/task.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { ClaimedJob } from "../store/store.ts";
import type { AgentSetup, Handler } from "../tasks/handler.ts";

/** What the server holds open for a job that a stage works on. A crash leaves only the row; this is then gone. */
export class LiveJob {
  readonly claimed: ClaimedJob;
  readonly task: Task;
  readonly handler: Handler;
  readonly setup: AgentSetup;
  readonly #controller = new AbortController();
  stage: Stage;
  sandbox: Sandbox | null = null;
  /** When the job became ready, for `ready_ms`. */
  readyAtMs = 0;

  constructor(claimed: ClaimedJob, stage: Stage, parsed: { task: Task; handler: Handler }) {
    this.claimed = claimed;
    this.stage = stage;
    this.task = parsed.task;
    this.handler = parsed.handler;
    this.setup = parsed.handler.setup(parsed.task);
  }

  get id(): string {
    return this.claimed.job.id;
  }

  /** Aborts when the job is to end from outside; its reason is the RolloutError that ended it. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the work in hand; the first reason wins. */
  end(error: RolloutError): void {
    if (!this.signal.aborted) this.#controller.abort(error);
  }
}

/** The jobs that stages work on now, and who waits for a job to finish. */
export class LiveJobs {
  readonly #jobs = new Map<string, LiveJob>();
  readonly #waiters = new Map<string, Set<() => void>>();
  /** Cancelled while a claim of them was on its way. Emptied when the job finishes. */
  readonly #cancelled = new Set<string>();

  get size(): number {
    return this.#jobs.size;
  }

  /** Jobs before EVAL: those that hold a share of the agents' sandboxes. */
  get agents(): number {
    let agents = 0;
    for (const job of this.#jobs.values()) if (job.stage !== "eval") agents += 1;
    return agents;
  }

  add(job: LiveJob): void {
    this.#jobs.set(job.id, job);
    if (this.#cancelled.has(job.id)) job.end(new RolloutError("cancelled", "cancelled by request"));
  }

  remove(job: LiveJob): void {
    this.#jobs.delete(job.id);
  }

  cancel(jobId: string): void {
    this.#cancelled.add(jobId);
    this.#jobs.get(jobId)?.end(new RolloutError("cancelled", "cancelled by request"));
  }

  /** Calls back once, when the job finishes. Returns how to stop waiting. */
  onFinished(jobId: string, callback: () => void): () => void {
    const waiters = this.#waiters.get(jobId) ?? new Set();
    this.#waiters.set(jobId, waiters.add(callback));
    return () => {
      waiters.delete(callback);
      if (waiters.size === 0 && this.#waiters.get(jobId) === waiters) this.#waiters.delete(jobId);
    };
  }

  finished(jobId: string): void {
    this.#cancelled.delete(jobId);
    const waiters = this.#waiters.get(jobId) ?? [];
    this.#waiters.delete(jobId);
    for (const wake of waiters) wake();
  }
}
