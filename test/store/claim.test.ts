import { describe, expect, test } from "bun:test";
import { RolloutError } from "../../src/errors.ts";
import { aRequest, aRunEnd, aToolResult, aTurn } from "../support/jobs.ts";
import { aStore, bringTo, claim, rejectionOf, submitOne, theJob } from "../support/store.ts";

describe("claimQueued", () => {
  test("takes higher priority first, then the older job, then the sibling of the lower sample", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    const [oldA, oldB] = await submitOne(store, { n: 2 });
    clock.ms += 5;
    const [young] = await submitOne(store);
    const [urgent] = await submitOne(store, { request: aRequest({ priority: 1 }) });
    const claimed = [await claim(store), await claim(store), await claim(store), await claim(store)];
    expect(claimed.map(({ job }) => job.id)).toEqual([urgent, oldA, oldB, young].map(String));
    expect(await store.claimQueued(["policy"])).toBeNull();
  });

  test("leaves jobs of models that nobody serves", async () => {
    await using opened = await aStore();
    const [other] = await submitOne(opened.store, { request: aRequest({ model: "other", priority: 9 }) });
    const [mine] = await submitOne(opened.store);
    expect((await claim(opened.store)).job.id).toBe(String(mine));
    expect(await opened.store.claimQueued(["policy"])).toBeNull();
    expect(await opened.store.claimQueued([])).toBeNull();
    expect((await opened.store.claimQueued(["policy", "other"]))?.job.id).toBe(String(other));
  });

  test("gives a job once when many ask at the same time", async () => {
    await using opened = await aStore();
    const ids = await submitOne(opened.store, { n: 20 });
    const claims = await Promise.all(Array.from({ length: 30 }, () => opened.store.claimQueued(["policy"])));
    const claimed = claims.flatMap((one) => one?.job.id ?? []);
    expect(claimed).toEqual([...ids]);
  });

  test("begins an attempt and measures how long the job was queued", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store);
    clock.ms += 30;
    const { job, attemptId, taskJson, carry } = await claim(store);
    expect(job).toMatchObject({
      state: "initializing",
      timing: { queuedMs: 30 },
      attempts: [{ id: attemptId, number: 1, stage: "init", startedAtMs: clock.ms, endedAtMs: null, endReason: null }],
    });
    expect({ id: JSON.parse(taskJson).id, carry }).toEqual({ id: job.taskId, carry: null });
  });
});

describe("claimAwaitingEval", () => {
  test("hands over what RUN left", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    const bytes = Uint8Array.of(0, 255, 10);
    await store.endRun(aRunEnd(at, { carry: { answer: null, artifacts: [{ name: "out.bin", bytes }] } }));
    const claimed = await store.claimAwaitingEval();
    expect(claimed).toMatchObject({ attemptId: at.attemptId, job: { id: at.jobId, state: "evaluating" } });
    expect(claimed?.carry).toEqual({ answer: null, artifacts: [{ name: "out.bin", bytes }] });
    expect(claimed?.job.artifacts).toEqual([{ name: "out.bin", bytes: 3 }]);
    expect(await store.artifact(at.jobId, "out.bin")).toEqual(bytes);
    expect(await store.artifact(at.jobId, "other")).toBeNull();
    expect(await store.claimAwaitingEval()).toBeNull();
  });
});

describe("failAttempt", () => {
  test("queues the job again and holds it back until the delay has passed", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    const error = new RolloutError("sandbox_lost", "it is gone");
    const after = await store.failAttempt({ ...at, stage: "run", error, backendIds: ["bck_1"] });
    expect(after).toEqual({ kind: "retry", notBeforeMs: clock.ms + 500 });
    clock.ms += 499;
    expect(await store.claimQueued(["policy"])).toBeNull();
    clock.ms += 1;
    const { job, attemptId } = await claim(store);
    expect(attemptId).not.toBe(at.attemptId);
    const lost = { reason: "sandbox_lost", blame: "infra", stage: "run", detail: "it is gone" };
    expect(job.attempts).toMatchObject([
      { id: at.attemptId, stage: "run", endReason: "sandbox_lost", backendIds: ["bck_1"], error: lost },
      { id: attemptId, number: 2, endReason: null },
    ]);
    expect(job.timing).toMatchObject({ queuedMs: 500, initMs: 0, runMs: 0 });
  });

  test("finishes the job without a reward when its attempts are used up", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store, { request: aRequest({ limits: { attemptsMax: 2 } }) });
    const error = new RolloutError("backend_unreachable", "refused");
    const first = await bringTo(store, "running");
    await store.failAttempt({ ...first, stage: "run", error, backendIds: [] });
    clock.ms += 60_000;
    const second = await bringTo(store, "running");
    await store.saveTurn({ ...second, record: aTurn() });
    const after = await store.failAttempt({ ...second, stage: "run", error, backendIds: [] });
    expect(after).toMatchObject({
      kind: "finished",
      job: {
        state: "finished",
        outcome: {
          status: "failed",
          endReason: "backend_unreachable",
          reward: null,
          trainable: false,
          error: { reason: "backend_unreachable", blame: "infra", stage: "run", detail: "refused" },
          turns: 1,
          promptTokens: 3,
          sampledTokens: 2,
          policyVersionMin: "7",
          policyVersionMax: "7",
        },
      },
    });
  });

  test("tries a failure that is the task's own once more and no oftener", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store, { request: aRequest({ limits: { attemptsMax: 9 } }) });
    const kinds: string[] = [];
    for (let attempt = 0; attempt < 2; attempt += 1) {
      const at = await bringTo(store, "initializing");
      const error = new RolloutError("handler_error", "no");
      kinds.push((await store.failAttempt({ ...at, stage: "init", error, backendIds: [] })).kind);
      clock.ms += 60_000;
    }
    expect(kinds).toEqual(["retry", "finished"]);
  });
});

describe("failEval", () => {
  test("repeats EVAL alone, with the tokens kept, until its own tries are used up", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store, { request: aRequest({ limits: { attemptsMax: 2 } }) });
    const at = await bringTo(store, "evaluating");
    const error = new RolloutError("grader_unreachable", "judge is down");
    const end = { ...at, stage: "eval", error, backendIds: [] } as const;
    expect(await store.failEval(end)).toEqual({ kind: "retry", notBeforeMs: clock.ms + 500 });
    expect(await store.claimAwaitingEval()).toBeNull();
    clock.ms += 500;
    expect((await store.claimAwaitingEval())?.attemptId).toBe(at.attemptId);
    const after = await store.failEval(end);
    expect(after).toMatchObject({
      kind: "finished",
      job: { outcome: { status: "failed", endReason: "grader_unreachable", reward: null, sampledTokens: 2 } },
    });
    expect((await store.trajectory(at.jobId))?.branches[0]?.tokenIds).toEqual(Int32Array.of(11, 12, 13, 21, 22));
  });
});

describe("endEval", () => {
  test("finishes the job with reward, times and a place in the results log", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store);
    clock.ms += 7;
    const { jobId } = await bringTo(store, "finished");
    const job = await theJob(store, jobId);
    expect(job).toMatchObject({
      state: "finished",
      finishedAtMs: clock.ms,
      outcome: { status: "completed", endReason: "answered", reward: 1, rewards: { equivalent: 1 }, trainable: true },
      timing: { queuedMs: 7, initMs: 15, runMs: 100, llmMs: 80, toolMs: 10, evalMs: 40, totalMs: 7 },
      attempts: [{ stage: "eval", endReason: "answered", endedAtMs: clock.ms, backendIds: ["bck_1"] }],
    });
    const results = await store.results({ after: 0, limit: 10, stream: null, groupId: null });
    expect(results).toEqual({ rows: [{ seq: 1, job }], first: 1, last: 1 });
  });
});

describe("moveJob", () => {
  test("refuses an illegal move, a wrong state and an attempt that is over", async () => {
    await using opened = await aStore();
    await submitOne(opened.store);
    const at = await bringTo(opened.store, "initializing");
    const move = (from: "initializing" | "ready", to: "running" | "evaluating", attemptId = at.attemptId) =>
      opened.store.moveJob({ jobId: at.jobId, attemptId, from, to, timing: {} });
    expect((await rejectionOf(move("initializing", "running"))).message).toContain(
      "may not go from initializing to running",
    );
    expect((await rejectionOf(move("ready", "running"))).message).toContain("is initializing, not ready");
    expect((await rejectionOf(move("initializing", "evaluating"))).message).toContain("has a verb of its own");
    expect((await rejectionOf(move("initializing", "running", "att_old"))).message).toContain("is not its current one");
    expect((await theJob(opened.store, at.jobId)).state).toBe("initializing");
  });
});

describe("trajectory", () => {
  test("gives back turns, tool answers and branches bit for bit", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    const second = aTurn({ index: 1, drift: "fork", branch: 1, parent: 0, contextStart: 2, stopReason: "\n\n" });
    await store.saveTurn({ ...at, record: aTurn() });
    await store.saveToolResults({ ...at, turn: 0, results: [aToolResult()], files: [] });
    await store.saveTurn({ ...at, record: second });
    expect(await store.trajectory(at.jobId)).toMatchObject({
      attemptId: at.attemptId,
      turns: [aTurn(), second],
      toolResults: [[aToolResult()], []],
      branches: [],
      model: null,
      evaluation: null,
    });
    const end = aRunEnd(at);
    await store.endRun(end);
    await store.claimAwaitingEval();
    await store.endEval({
      ...at,
      verdict: { reward: 0.5, rewards: {}, report: { a: 1 }, log: "half", grading: "shared_process" },
      timing: {},
    });
    const whole = await store.trajectory(at.jobId);
    expect(whole).toMatchObject({ messages: end.messages, model: end.model, branches: end.branches });
    expect(whole?.evaluation).toEqual({
      attempt: 1,
      reward: 0.5,
      rewards: {},
      report: { a: 1 },
      log: "half",
      grading: "shared_process",
    });
  });

  test("is null for a job that is unknown or was never begun", async () => {
    await using opened = await aStore();
    const [id] = await submitOne(opened.store);
    expect(await opened.store.trajectory(String(id))).toBeNull();
    expect(await opened.store.trajectory("job_none")).toBeNull();
  });

  test("gives EVAL the files of the sandbox, not those of tools, and prefers them where both have a name", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    await store.saveTurn({ ...at, record: aTurn() });
    const file = (name: string, text: string) => ({ name, bytes: Buffer.from(text) });
    const files = [file("output-0-1.txt", "all of it"), file("figure-0-1-1.png", "PNG")];
    await store.saveToolResults({ ...at, turn: 0, results: [aToolResult()], files });
    const carry = { answer: "2", artifacts: [file("a.txt", "a"), file("output-0-1.txt", "the agent's own")] };
    await store.endRun(aRunEnd(at, { carry }));
    const claimed = await store.claimAwaitingEval();
    const carried = claimed?.carry?.artifacts.map(({ name, bytes }) => [name, Buffer.from(bytes).toString()]);
    expect(carried).toEqual([
      ["a.txt", "a"],
      ["output-0-1.txt", "the agent's own"],
    ]);
    expect((await theJob(store, at.jobId)).artifacts).toEqual([
      { name: "a.txt", bytes: 1 },
      { name: "figure-0-1-1.png", bytes: 3 },
      { name: "output-0-1.txt", bytes: 15 },
    ]);
    expect(Buffer.from((await store.artifact(at.jobId, "figure-0-1-1.png")) ?? []).toString()).toBe("PNG");
  });

  test("refuses tool answers to a turn that was not saved", async () => {
    await using opened = await aStore();
    await submitOne(opened.store);
    const at = await bringTo(opened.store, "running");
    const early = opened.store.saveToolResults({ ...at, turn: 0, results: [aToolResult()], files: [] });
    expect((await rejectionOf(early)).message).toContain("was saved before its tools answered");
  });
});
