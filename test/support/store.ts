import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Clock } from "../../src/clock.ts";
import { assert } from "../../src/errors.ts";
import type { Job } from "../../src/job/job.ts";
import type { State } from "../../src/job/state.ts";
import { createStore } from "../../src/store/client.ts";
import type { ClaimedJob, NewGroup, Store } from "../../src/store/store.ts";
import { aGroup, aRunEnd, aTurn, aVerdict } from "./jobs.ts";

/** A clock that stands where it was put; nothing sleeps on it. */
export interface SetClock extends Clock {
  ms: number;
}

export function aSetClock(ms = 1_700_000_000_000): SetClock {
  const clock: SetClock = { ms, nowMs: () => clock.ms, sleep: () => Promise.resolve() };
  return clock;
}

/** A migrated store, in memory unless `file` is given. The test disposes of it. */
export async function aStore(options: { file?: string; clock?: SetClock } = {}) {
  const clock = options.clock ?? aSetClock();
  const store = await createStore({ file: options.file ?? ":memory:", clock });
  return { store, clock, [Symbol.asyncDispose]: () => store[Symbol.asyncDispose]() };
}

/** A folder that is gone after the test. */
export function aFolder(): Disposable & { path: string } {
  const path = mkdtempSync(join(tmpdir(), "rolloutd-test-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

/** Submits one group and gives the ids of its jobs. */
export async function submitOne(store: Store, over: Partial<NewGroup> = {}): Promise<readonly string[]> {
  const { groups } = await store.submit([aGroup(over)], null);
  const [group] = groups;
  assert(group, "one group was submitted");
  return group.jobIds;
}

export async function claim(store: Store): Promise<ClaimedJob> {
  const claimed = await store.claimQueued(["policy"]);
  assert(claimed, "a job is queued");
  return claimed;
}

/**
 * Brings the next queued job to `state` the way the pipeline does: one turn is saved in RUN, and EVAL ends with the
 * verdict of `aVerdict`.
 */
export async function bringTo(store: Store, state: State): Promise<{ jobId: string; attemptId: string }> {
  const { job, attemptId } = await claim(store);
  const at = { jobId: job.id, attemptId };
  const steps: [State, () => Promise<unknown>][] = [
    ["initializing", async () => {}],
    ["ready", () => store.moveJob({ ...at, from: "initializing", to: "ready", timing: { initMs: 15 } })],
    ["running", () => store.moveJob({ ...at, from: "ready", to: "running", timing: {} })],
    ["awaiting_eval", () => store.saveTurn({ ...at, record: aTurn() }).then(() => store.endRun(aRunEnd(at)))],
    ["evaluating", () => store.claimAwaitingEval()],
    ["finished", () => store.endEval({ ...at, verdict: aVerdict(), timing: { evalMs: 40 } })],
  ];
  for (const [reached, step] of steps) {
    await step();
    if (reached === state) return at;
  }
  throw new Error(`no step reaches ${state}`);
}

/** A job that must be there. */
export async function theJob(store: Store, jobId: string): Promise<Job> {
  const job = await store.job(jobId);
  assert(job, `job ${jobId} is in the store`);
  return job;
}

/**
 * What a promise rejects with. For everything that a Worker answers: `expect(promise).rejects` spins the event loop
 * without delivering a Worker's messages (Bun 1.4.4), so it would wait for ever.
 */
export async function rejectionOf(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
    throw new Error(`rejected with what is no error: ${String(error)}`);
  }
  throw new Error("the promise was expected to reject");
}
