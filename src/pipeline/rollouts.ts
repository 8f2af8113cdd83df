import type { Job, JobRequest } from "../job/job.ts";
import type { JobLimits } from "../job/limits.ts";
import type { Enforcement } from "../sandbox/enforcement.ts";
import type { ImageInfo } from "../sandbox/image.ts";
import type { Group, GroupIds } from "../store/store.ts";

/** An image as HTTP lists it. */
export type ListedImage = ImageInfo;

/** A submission whose envelope was checked; the tasks themselves are still unknown rows. */
export interface Submission {
  /** Each becomes a group of `n`: native tasks or rows that a built-in handler recognises. */
  tasks: readonly unknown[];
  n: number;
  /** Defaults filled in; a task's own `limits` win over these. */
  request: JobRequest;
  /** `bodyHash` is SHA-256 hex of the body's bytes. */
  idempotency: { key: string; bodyHash: string } | null;
}

export interface HandlerInfo {
  name: string;
  source: string;
  tools: readonly string[];
  toolFormat: string;
  carry: readonly string[];
  /** JSON Schema of a native task. */
  taskSchema: unknown;
}

export interface PoolStatus {
  slots: number;
  busy: number;
}

export interface PipelineStatus {
  pools: { init: PoolStatus; run: PoolStatus; eval: PoolStatus };
  /** Jobs in the ready buffer. */
  ready: number;
  sandboxes: {
    live: number;
    /** Started ahead of need, beside those that live. */
    warm: number;
    max: number;
    evalReserve: number;
    enforcement: Enforcement;
  };
}

/** What HTTP may ask of the pipeline. */
export interface Rollouts {
  /** Durable when it resolves. Throws RequestError with a fault for each bad row (`tasks.6.answer`). */
  submit(submission: Submission): Promise<{ groups: readonly GroupIds[]; repeated: boolean }>;
  /** Resolves with the finished job once its processes are gone; a finished job stays as it is. Throws job_unknown. */
  cancelJob(jobId: string): Promise<Job>;
  cancelGroup(groupId: string): Promise<Group>;
  /** The job when it is finished, or as it is after `waitMs` or when `signal` aborts. Throws job_unknown. */
  waitForJob(jobId: string, waitMs: number, signal: AbortSignal): Promise<Job>;
  handlers(): readonly HandlerInfo[];
  images(): readonly ListedImage[];
  /** The limits of a job that asks for none. */
  limitDefaults(): JobLimits;
  status(): PipelineStatus;
}
