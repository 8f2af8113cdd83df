import { describe, expect, test } from "bun:test";
import { RolloutError } from "../../src/errors.ts";
import type { State } from "../../src/job/state.ts";
import { anOutcome, aRunEnd, aTurn, aVerdict } from "../support/jobs.ts";
import { aStore, bringTo, claim, submitOne, theJob } from "../support/store.ts";

const CANCELLED = { status: "cancelled", endReason: "cancelled", reward: null, trainable: false, error: null };

describe("requestCancel", () => {
  test("finishes a queued job at once, without an attempt", async () => {
    await using opened = await aStore();
    const { store } = opened;
    const [id] = await submitOne(store);
    expect(await store.requestCancel(String(id))).toEqual({ kind: "finished" });
    expect(await theJob(store, String(id))).toMatchObject({ state: "finished", outcome: CANCELLED, attempts: [] });
    expect(await store.claimQueued(["policy"])).toBeNull();
    expect((await store.results({ after: 0, limit: 9, stream: null, groupId: null })).rows).toHaveLength(1);
  });

  test("finishes a job that waits for EVAL at once, with its tokens", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const { jobId } = await bringTo(store, "awaiting_eval");
    expect(await store.requestCancel(jobId)).toEqual({ kind: "finished" });
    expect(await theJob(store, jobId)).toMatchObject({ outcome: { ...CANCELLED, sampledTokens: 2 } });
    expect(await store.claimAwaitingEval()).toBeNull();
  });

  test.each<State>(["initializing", "ready", "running", "evaluating"])(
    "leaves a job in %s to its owner, and endCancelled finishes it",
    async (state) => {
      await using opened = await aStore();
      const { store } = opened;
      await submitOne(store);
      const at = await bringTo(store, state);
      expect(await store.requestCancel(at.jobId)).toEqual({ kind: "live" });
      expect((await theJob(store, at.jobId)).state).toBe(state);
      const stage = state === "running" ? "run" : state === "evaluating" ? "eval" : "init";
      const job = await store.endCancelled({ ...at, stage, run: null });
      expect(job).toMatchObject({
        state: "finished",
        outcome: CANCELLED,
        attempts: [{ endReason: "cancelled", endedAtMs: opened.clock.ms }],
      });
      expect(await store.requestCancel(at.jobId)).toEqual({ kind: "finished" });
      expect((await store.results({ after: 0, limit: 9, stream: null, groupId: null })).rows).toHaveLength(1);
    },
  );

  test("leaves a finished job as it is, and knows no other", async () => {
    await using opened = await aStore();
    await submitOne(opened.store);
    const { jobId, attemptId } = await bringTo(opened.store, "finished");
    const before = await theJob(opened.store, jobId);
    expect(await opened.store.requestCancel(jobId)).toEqual({ kind: "finished" });
    expect(await opened.store.endCancelled({ jobId, attemptId, stage: "eval", run: null })).toEqual(before);
    expect(await theJob(opened.store, jobId)).toEqual(before);
    expect(await opened.store.requestCancel("job_none")).toEqual({ kind: "unknown" });
  });

  test("wins over an end of RUN, a verdict and a failure that come after it", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store, { n: 3 });
    const running = await bringTo(store, "running");
    await store.requestCancel(running.jobId);
    await store.endRun(aRunEnd(running));
    expect(await theJob(store, running.jobId)).toMatchObject({ outcome: { ...CANCELLED, sampledTokens: 2 } });

    const evaluating = await bringTo(store, "evaluating");
    await store.requestCancel(evaluating.jobId);
    const graded = { ...evaluating, verdict: aVerdict(), timing: {} };
    expect(await store.endEval(graded)).toMatchObject({ outcome: CANCELLED });

    const failing = await bringTo(store, "initializing");
    await store.requestCancel(failing.jobId);
    const error = new RolloutError("sandbox_lost", "gone");
    const after = await store.failAttempt({ ...failing, stage: "init", error, backendIds: [] });
    expect(after).toMatchObject({ kind: "finished", job: { outcome: CANCELLED } });
  });
});

describe("endCancelled", () => {
  test("keeps what RUN had so far, and the kind of cancellation that it names", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    await store.saveTurn({ ...at, record: aTurn() });
    const run = aRunEnd(at, { outcome: anOutcome({ status: "cancelled", endReason: "surplus" }) });
    const job = await store.endCancelled({ ...at, stage: "run", run });
    expect(job).toMatchObject({ outcome: { endReason: "surplus", sampledTokens: 2 }, timing: { runMs: 100 } });
    expect((await store.trajectory(at.jobId))?.branches).toEqual([...run.branches]);
  });
});

describe("recover", () => {
  test.each<State>(["initializing", "ready", "running"])(
    "queues a job that was in %s again, as no attempt",
    async (state) => {
      await using opened = await aStore();
      const { store } = opened;
      const [id] = await submitOne(store);
      const old = await bringTo(store, state);
      expect(await store.recover()).toEqual({ requeued: 1, evalsRepeated: 0 });
      expect(await theJob(store, String(id))).toMatchObject({
        state: "queued",
        attempts: [
          { endReason: "server_restart", error: { blame: "infra", stage: state === "running" ? "run" : "init" } },
        ],
      });
      const { attemptId } = await claim(store);
      expect(attemptId).not.toBe(old.attemptId);
    },
  );

  test("never counts restarts as attempts", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    for (let life = 0; life < 9; life += 1) {
      await bringTo(store, "running");
      await store.recover();
    }
    const at = await bringTo(store, "running");
    const error = new RolloutError("sandbox_lost", "gone");
    expect((await store.failAttempt({ ...at, stage: "run", error, backendIds: [] })).kind).toBe("retry");
  });

  test("lets an interrupted evaluation wait for EVAL again, with the tokens kept", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "evaluating");
    expect(await store.recover()).toEqual({ requeued: 0, evalsRepeated: 1 });
    const again = await store.claimAwaitingEval();
    expect(again).toMatchObject({ attemptId: at.attemptId, carry: { answer: "2" } });
    const job = await store.endEval({ ...at, verdict: aVerdict(), timing: {} });
    expect(job).toMatchObject({ outcome: { reward: 1 }, attempts: [{ endReason: "answered" }] });
    expect((await store.trajectory(at.jobId))?.evaluation?.attempt).toBe(2);
  });

  test("finishes a live job whose cancellation was asked for", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const { jobId } = await bringTo(store, "running");
    await store.requestCancel(jobId);
    expect(await store.recover()).toEqual({ requeued: 0, evalsRepeated: 0 });
    expect(await theJob(store, jobId)).toMatchObject({ state: "finished", outcome: CANCELLED });
  });

  test("leaves queued, waiting and finished jobs alone", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store, { n: 3 });
    await bringTo(store, "finished");
    await bringTo(store, "awaiting_eval");
    const before = await store.counts();
    expect(await store.recover()).toEqual({ requeued: 0, evalsRepeated: 0 });
    expect(await store.counts()).toEqual(before);
    expect(before).toMatchObject({ queued: 1, awaiting_eval: 1, finished: 1, evaluating: 0 });
  });
});
