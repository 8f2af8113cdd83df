import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { RolloutError } from "../../src/errors.ts";
import type { Store } from "../../src/store/store.ts";
import { A_SHELL_TASK, A_WORD_TASK, aPipeline, bash } from "../support/pipeline.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(30_000);

/** The store with one verb that fails the first `times` it is called. */
function failing(verb: keyof Store & string, times: number): (store: Store) => Store {
  let left = times;
  return (store) =>
    new Proxy(store, {
      get(target, name) {
        const own: unknown = Reflect.get(target, name);
        if (name !== verb || typeof own !== "function") return own;
        return (...args: unknown[]) => {
          left -= 1;
          if (left >= 0) return Promise.reject(new RolloutError("store_failed", "the disk is full"));
          return own.apply(target, args) as unknown;
        };
      },
    });
}

const twoTurns = {
  script: ({ prompt }: { prompt: string }) =>
    prompt.split("<|start|>assistant\n").length === 2 ? bash("echo done > out.txt") : "Done.",
};

describe("Pipeline over a store that fails", () => {
  test.each([
    "claimQueued",
    "moveJob",
    "saveTurn",
    "saveToolResults",
    "endRun",
    "claimAwaitingEval",
    "endEval",
  ] as const)("brings every job to its end, and every sandbox, when %s fails once", async (verb) => {
    await using at = await aPipeline({ models: [twoTurns], storeFor: failing(verb, 1) });
    const ids = await at.submit(A_SHELL_TASK, { n: 2 });
    for (const id of ids) expect((await at.finish(id)).outcome).toMatchObject({ status: "completed", reward: 1 });
    await until(async () => at.sandboxes.live === 0 && at.live.size === 0);
  });

  test.each(["failAttempt", "failEval"] as const)("writes down how a job failed when %s fails thrice", async (verb) => {
    const fault = (what: string) => (what === "complete" ? ("die" as const) : null);
    const models = verb === "failAttempt" ? [{ script: () => "x", fault }] : [twoTurns];
    await using at = await aPipeline({ models, backendWaitMs: 20, storeFor: failing(verb, 3) });
    const task = verb === "failEval" ? { ...A_SHELL_TASK, eval: { command: ["false"] } } : A_SHELL_TASK;
    const [jobId = ""] = await at.submit(task, { limits: { attemptsMax: 1 } });
    const job = await at.finish(jobId);
    expect(job).toMatchObject({ state: "finished", outcome: { status: "failed", reward: null } });
    expect(at.sandboxes.live).toBe(0);
  });

  test("finishes a cancellation when endCancelled fails three times, for everyone who asked", async () => {
    const models = [{ script: () => bash("sleep 60") }];
    await using at = await aPipeline({ models, storeFor: failing("endCancelled", 3) });
    const [jobId = ""] = await at.submit(A_SHELL_TASK);
    await until(async () => (await at.store.trajectory(jobId))?.turns.length === 1);
    const both = await Promise.all([at.pipeline.cancelJob(jobId), at.pipeline.cancelJob(jobId)]);
    for (const job of both) expect(job).toMatchObject({ state: "finished", outcome: { endReason: "cancelled" } });
    expect(at.sandboxes.live).toBe(0);
    expect(at.live.size).toBe(0);
  });
});

describe("Pipeline.cancelJob", () => {
  test("answers when the request and the end of RUN reach the store together", async () => {
    const asked = Promise.withResolvers<void>();
    let cancel: Promise<unknown> = Promise.resolve();
    const storeFor = (store: Store): Store => ({
      ...store,
      // The request is committed before the end of RUN, and its answer comes after that.
      requestCancel: async (jobId) => {
        const answer = await store.requestCancel(jobId);
        asked.resolve();
        await until(async () => (await store.job(jobId))?.state === "finished");
        return answer;
      },
      endRun: async (end) => {
        cancel = at.pipeline.cancelJob(end.jobId);
        await asked.promise;
        return store.endRun(end);
      },
    });
    await using at = await aPipeline({ models: [{ script: () => "ANSWER: 7" }], storeFor });
    const [jobId = ""] = await at.submit(A_WORD_TASK);
    await until(async () => (await at.store.job(jobId))?.state === "finished");
    expect(await cancel).toMatchObject({ state: "finished", outcome: { endReason: "cancelled", reward: null } });
  });
});

describe("Pipeline.cancelJob, in the gaps", () => {
  test("ends a job that was claimed but is not yet known to be live, before it gets a sandbox", async () => {
    const claimed = Promise.withResolvers<string>();
    const cancelled = Promise.withResolvers<void>();
    const storeFor = (store: Store): Store => ({
      ...store,
      claimQueued: async (models) => {
        const claim = await store.claimQueued(models);
        if (claim === null) return null;
        claimed.resolve(claim.job.id);
        await cancelled.promise;
        return claim;
      },
      requestCancel: async (jobId) => {
        const answer = await store.requestCancel(jobId);
        setImmediate(cancelled.resolve);
        return answer;
      },
    });
    await using at = await aPipeline({ models: [twoTurns], storeFor });
    const [jobId = ""] = await at.submit(A_SHELL_TASK);
    expect(await claimed.promise).toBe(jobId);
    expect((await at.pipeline.cancelJob(jobId)).outcome).toMatchObject({ endReason: "cancelled", turns: 0 });
    expect(at.live.size).toBe(0);
  });

  test("answers every request for jobs that a drain interrupts in the same moment", async () => {
    const at = await aPipeline({ models: [{ script: () => bash("sleep 60") }], limits: { runWorkers: 2 } });
    const ids = await at.submit(A_SHELL_TASK, { n: 6 });
    await until(async () => (await at.store.counts()).running === 2 && (await at.store.counts()).ready > 0);
    const drained = at.pipeline.drain(0);
    const jobs = await Promise.all(ids.map((id) => at.pipeline.cancelJob(id)));
    await drained;
    expect(jobs.map((job) => job.outcome?.endReason)).toEqual(Array(6).fill("cancelled"));
    const counts = await at.store.counts();
    expect(counts).toMatchObject({ queued: 0, initializing: 0, ready: 0, running: 0, finished: 6 });
    expect(at.sandboxes.live).toBe(0);
    await at[Symbol.asyncDispose]();
  });
});

describe("Pipeline and its budget", () => {
  test("never holds more sandboxes than it has, however many INIT slots claim at once", async () => {
    const limits = { initWorkers: 8, readyMax: 8, sandboxesMax: 4, evalReserve: 2, runWorkers: 8 };
    let most = 0;
    const storeFor = (store: Store): Store => ({
      ...store,
      moveJob: async (move) => {
        most = Math.max(most, at.live.agents);
        return store.moveJob(move);
      },
    });
    await using at = await aPipeline({ models: [twoTurns], limits, storeFor });
    const ids = await at.submit(A_SHELL_TASK, { n: 12 });
    for (const id of ids) await at.finish(id);
    expect(most).toBe(2);
  });
});

describe("Pipeline and a handler that does not behave", () => {
  const never = () => new Promise<never>(() => {});

  test.each([
    ["init", "init_timeout", { init: never }],
    ["run", "run_timeout", { run: never }],
    ["evaluate", "eval_timeout", { evaluate: never }],
  ] as const)("goes on when %s never ends and heeds no signal", async (stage, endReason, handler) => {
    const limits = { initWorkers: 1, runWorkers: 1, evalWorkers: 1, handlerGraceMs: 50 };
    await using at = await aPipeline({ models: [twoTurns], limits, handler });
    const short = { [`${stage === "evaluate" ? "eval" : stage}Ms`]: 100, attemptsMax: 1 };
    const ids = await at.submit(A_SHELL_TASK, { n: 2, limits: short });
    for (const id of ids) expect((await at.finish(id)).outcome).toMatchObject({ endReason });
    expect(at.sandboxes.live).toBe(0);
  });

  test("can be cancelled while evaluate never ends and heeds no signal", async () => {
    await using at = await aPipeline({
      models: [twoTurns],
      handler: { evaluate: never },
      limits: { handlerGraceMs: 50 },
    });
    const [jobId = ""] = await at.submit(A_SHELL_TASK);
    await until(async () => (await at.store.job(jobId))?.state === "evaluating");
    expect((await at.pipeline.cancelJob(jobId)).outcome).toMatchObject({ endReason: "cancelled", reward: null });
  });

  test("goes on when an error hook never ends", async () => {
    const handler = { init: () => Promise.reject(new Error("no")), onInitError: never };
    await using at = await aPipeline({ models: [twoTurns], handler, limits: { handlerGraceMs: 50 } });
    const [jobId = ""] = await at.submit(A_SHELL_TASK, { limits: { attemptsMax: 1 } });
    expect((await at.finish(jobId)).outcome).toMatchObject({ endReason: "handler_error" });
  });

  const verdict = { reward: 1, rewards: {}, report: {}, log: "", grading: "separate" as const };
  test.each([
    ["a reward that is no number", { ...verdict, reward: Number.NaN }],
    ["a partial reward that is no number", { ...verdict, rewards: { style: Number.POSITIVE_INFINITY } }],
    ["a report that is no JSON", { ...verdict, report: { size: 1n } }],
    ["no log", { ...verdict, log: undefined }],
    ["nothing", undefined],
  ])("blames the task, without a reward, for %s", async (_what, given) => {
    const evaluate = () => Promise.resolve(given as typeof verdict);
    await using at = await aPipeline({ models: [twoTurns], handler: { evaluate } });
    const [jobId = ""] = await at.submit(A_SHELL_TASK, { limits: { attemptsMax: 1 } });
    expect((await at.finish(jobId)).outcome).toMatchObject({ endReason: "handler_error", reward: null, rewards: {} });
  });

  test("keeps a bounded part of a grader's log", async () => {
    const evaluate = () => Promise.resolve({ ...verdict, log: "x".repeat(5_000_000) });
    await using at = await aPipeline({ models: [twoTurns], handler: { evaluate } });
    const [jobId = ""] = await at.submit(A_SHELL_TASK);
    expect((await at.finish(jobId)).outcome).toMatchObject({ reward: 1 });
    expect((await at.store.trajectory(jobId))?.evaluation?.log.length).toBeLessThan(1_100_000);
  });
});

describe("Pipeline and an outage of the only backend", () => {
  /** Dead from its second turn on, for `ms`. */
  function dying(ms: number) {
    let calls = 0;
    let deadUntilMs = 0;
    return {
      ...twoTurns,
      fault: (what: string) => {
        if (what === "complete" && ++calls === 2) deadUntilMs = performance.now() + ms;
        return performance.now() < deadUntilMs ? ("die" as const) : null;
      },
    };
  }

  test("does not count the outage as the agent's time, and blames infrastructure when it does not end", async () => {
    await using at = await aPipeline({ models: [dying(60_000)], backendWaitMs: 1_500 });
    const [jobId = ""] = await at.submit(A_SHELL_TASK, { limits: { runMs: 600, attemptsMax: 1 } });
    expect((await at.finish(jobId)).outcome).toMatchObject({ endReason: "backend_unreachable", reward: null });
  });

  test("goes on with the agent's time where it was when the backend is back", async () => {
    await using at = await aPipeline({ models: [dying(1_200)], backendWaitMs: 10_000 });
    const [jobId = ""] = await at.submit(A_SHELL_TASK, { limits: { runMs: 900, attemptsMax: 1 } });
    expect((await at.finish(jobId)).outcome).toMatchObject({ endReason: "answered", reward: 1, turns: 2 });
  });
});
