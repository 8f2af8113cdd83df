import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { LIMITS } from "../../src/limits.ts";
import { addEvent } from "../../src/store/add-event.ts";
import { openDatabase } from "../../src/store/database.ts";
import { commitTogether } from "../../src/store/group-commit.ts";
import type { Call } from "../../src/store/messages.ts";
import type { StoredBackend } from "../../src/store/store.ts";
import { readEvents } from "../../src/store/verbs/read-events.ts";
import { aGroup, aRequest, aToolResult, aTurn } from "../support/jobs.ts";
import { aFolder, aStore, bringTo, rejectionOf, submitOne } from "../support/store.ts";

const ALL = { after: 0, limit: 100, stream: null, groupId: null };

describe("results", () => {
  test("numbers finished jobs without a gap, and filters by stream and group", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await submitOne(store, { n: 2 });
    clock.ms += 1;
    await submitOne(store, { request: aRequest({ stream: "train" }) });
    const finished = [];
    for (let job = 0; job < 3; job += 1) finished.push((await bringTo(store, "finished")).jobId);
    const whole = await store.results(ALL);
    expect(whole.rows.map(({ seq, job }) => [seq, job.id])).toEqual(finished.map((id, index) => [index + 1, id]));
    expect({ first: whole.first, last: whole.last }).toEqual({ first: 1, last: 3 });
    const streamed = await store.results({ ...ALL, stream: "train" });
    expect(streamed.rows.map(({ seq }) => seq)).toEqual([3]);
    const group = await store.results({ ...ALL, groupId: whole.rows[0]?.job.groupId ?? "" });
    expect(group.rows.map(({ seq }) => seq)).toEqual([1, 2]);
    expect((await store.results({ ...ALL, after: 1, limit: 1 })).rows.map(({ seq }) => seq)).toEqual([2]);
    expect((await store.results({ ...ALL, after: 3 })).rows).toEqual([]);
  });

  test("says which is the first one kept when the place asked for has expired", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store, { n: 3 });
    const [first] = [await bringTo(store, "finished"), await bringTo(store, "finished")];
    await store.expireResults(2);
    const expired = await rejectionOf(store.results(ALL));
    expect(expired).toMatchObject({ reason: "results_expired", members: { first: 2 } });
    expect((await store.results({ ...ALL, after: 1 })).rows.map(({ seq }) => seq)).toEqual([2]);
    expect((await store.job(first?.jobId ?? ""))?.state).toBe("finished");
    await store.expireResults(3);
    expect(await store.results({ ...ALL, after: 2 })).toEqual({ rows: [], first: 3, last: 2 });
    await bringTo(store, "finished");
    expect((await store.results({ ...ALL, after: 2 })).rows.map(({ seq }) => seq)).toEqual([3]);
  });
});

describe("events", () => {
  test("tell a job's whole life in order, in wire shape", async () => {
    await using opened = await aStore();
    const { store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    await store.saveTurn({ ...at, record: aTurn({ index: 0 }) });
    await store.saveToolResults({ ...at, turn: 0, results: [aToolResult()], files: [] });
    await store.requestCancel(at.jobId);
    await store.endCancelled({ ...at, stage: "run", run: null });
    const events = await store.events({ jobId: at.jobId, after: 0, limit: 100 });
    const job_id = at.jobId;
    expect(events.map(({ kind, data }) => [kind, data])).toMatchObject([
      ["state", { job_id, from: "queued", to: "initializing" }],
      ["state", { job_id, from: "initializing", to: "ready" }],
      ["state", { job_id, from: "ready", to: "running" }],
      ["turn", { job_id, turn: 0, sampled_tokens: 2, finish_reason: "stop" }],
      ["tool", { job_id, turn: 0, tool: "python", exit_code: 0, ms: 12 }],
      ["state", { job_id, from: "running", to: "finished" }],
      ["finished", { job_id, outcome: { status: "cancelled", end_reason: "cancelled", sampled_tokens: 2 } }],
    ]);
    const after = events[4]?.seq ?? 0;
    expect(await store.events({ jobId: null, after, limit: 1 })).toEqual(events.slice(5, 6));
    expect(await store.events({ jobId: "job_none", after: 0, limit: 9 })).toEqual([]);
  });

  test("wake listeners after a commit that added some, until they stop", async () => {
    await using opened = await aStore();
    const { store } = opened;
    let woken = 0;
    const commits: unknown[] = [];
    const stop = store.onCommit((commit) => {
      woken += 1;
      commits.push(commit);
    });
    await submitOne(store, { n: 2 });
    await store.counts();
    expect(woken).toBe(0);
    await bringTo(store, "initializing");
    await store.counts();
    expect(woken).toBe(1);
    const [{ id } = { id: "" }] = await store.jobs({ limit: 1, state: "initializing" });
    expect(commits).toEqual([{ jobIds: new Set([id]), hasResults: false }]);
    stop();
    await bringTo(store, "initializing");
    await store.counts();
    expect(woken).toBe(1);
  });

  test("are trimmed to the newest ones", () => {
    using database = openDatabase(":memory:");
    const context = { db: database.db, nowMs: 0, commit: null };
    const written = LIMITS.eventsKeptMax + LIMITS.eventsTrimEvery;
    database.client.run("BEGIN");
    for (let event = 0; event < written; event += 1) addEvent(context, "state", "job_1", {});
    database.client.run("COMMIT");
    const [oldest] = readEvents(context, { jobId: null, after: 0, limit: 1 });
    expect(oldest?.seq).toBe(written - LIMITS.eventsKeptMax + 1);
  });
});

describe("jobs", () => {
  test("are listed by creation, filtered and paged", async () => {
    await using opened = await aStore();
    const { store } = opened;
    const plain = await submitOne(store, { n: 3 });
    const [labelled] = await submitOne(store, {
      handler: "code",
      request: aRequest({ labels: { 'odd."key': "a", run: "1" }, stream: "s" }),
    });
    const ids = async (filter: Partial<Parameters<typeof store.jobs>[0]>) =>
      (await store.jobs({ limit: 100, ...filter })).map((job) => job.id);
    expect([...(await ids({}))].sort()).toEqual([...plain, String(labelled)].sort());
    expect(await ids({ handler: "math" })).toEqual([...plain]);
    expect(await ids({ handler: "math", after: String(plain[0]), limit: 1 })).toEqual([String(plain[1])]);
    expect(await ids({ labels: { 'odd."key': "a" } })).toEqual([String(labelled)]);
    expect(await ids({ labels: { 'odd."key': "a", run: "2" } })).toEqual([]);
    expect(await ids({ stream: "s", state: "queued" })).toEqual([String(labelled)]);
    expect(await ids({ state: "running" })).toEqual([]);
  });
});

describe("consumers", () => {
  test("keep their place, may go back, and can be forgotten", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    await store.putConsumer("trainer", 41);
    clock.ms += 1;
    expect(await store.putConsumer("trainer", 7)).toEqual({ name: "trainer", committed: 7, updatedAtMs: clock.ms });
    await store.putConsumer("audit", 1);
    expect((await store.consumers()).map(({ name, committed }) => [name, committed])).toEqual([
      ["audit", 1],
      ["trainer", 7],
    ]);
    expect([await store.deleteConsumer("audit"), await store.deleteConsumer("audit")]).toEqual([true, false]);
  });
});

describe("backends", () => {
  test("are kept field by field and replaced by id", async () => {
    await using opened = await aStore();
    const { store } = opened;
    const backend: StoredBackend = {
      id: "bck_1",
      url: "unix:/run/llm.sock",
      model: "policy",
      role: "policy",
      kind: "vllm",
      apiKey: "secret",
      weight: 1.5,
      policyVersion: "7",
      tokenizer: null,
      draining: false,
      profileJson: '{"kind": "vllm"}',
      createdAtMs: 5,
    };
    await store.putBackend(backend);
    await store.putBackend({ ...backend, id: "bck_0", createdAtMs: 9 });
    await store.putBackend({ ...backend, draining: true, profileJson: null });
    expect(await store.backends()).toEqual([
      { ...backend, draining: true, profileJson: null },
      { ...backend, id: "bck_0", createdAtMs: 9 },
    ]);
    expect([await store.deleteBackend("bck_0"), await store.deleteBackend("bck_0")]).toEqual([true, false]);
  });
});

describe("commitTogether", () => {
  const call = (id: number, over: Partial<Call>) => ({ kind: "call", id, nowMs: 1, ...over }) as Call;

  test("undoes the call that throws and keeps its neighbours", () => {
    using database = openDatabase(":memory:");
    const key = (bodyHash: string) => ({ groups: [aGroup()], idempotency: { key: "k", bodyHash } });
    const { answers } = commitTogether(database, [
      call(1, { verb: "submit", input: key("a") }),
      call(2, { verb: "submit", input: key("b") }),
      call(3, { verb: "submit", input: { groups: [aGroup()], idempotency: null } }),
      call(4, { verb: "countJobs", input: null }),
    ]);
    expect(answers.map((answer) => ("error" in answer ? answer.error.kind : "ok"))).toEqual([
      "ok",
      "request",
      "ok",
      "ok",
    ]);
    expect(answers[3]).toMatchObject({ id: 4, value: { queued: 2 } });
  });

  test("undoes what a throwing call had already written", () => {
    using database = openDatabase(":memory:");
    const broken = { ...aGroup(), handler: null as unknown as string };
    const { answers } = commitTogether(database, [
      call(1, { verb: "submit", input: { groups: [aGroup(), broken], idempotency: null } }),
      call(2, { verb: "countJobs", input: null }),
      call(3, { verb: "listJobs", input: { limit: 9 } }),
    ]);
    expect(answers).toMatchObject([
      { error: { kind: "rollout", reason: "store_failed" } },
      { value: { queued: 0 } },
      { value: [] },
    ]);
  });

  test("answers every call with the failure when there can be no transaction", () => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.db");
    using database = openDatabase(file);
    using other = new Database(file);
    database.client.run("PRAGMA busy_timeout = 0");
    other.run("BEGIN IMMEDIATE");
    const calls = [
      call(1, { verb: "countJobs", input: null }),
      call(2, { verb: "submit", input: { groups: [aGroup()], idempotency: null } }),
    ];
    const refused = {
      error: { kind: "rollout", reason: "store_failed", detail: expect.stringContaining("SQLITE_BUSY") },
    };
    expect(commitTogether(database, calls).answers).toMatchObject([refused, refused]);
    other.run("ROLLBACK");
    expect(commitTogether(database, calls).answers).toMatchObject([{ value: {} }, { value: { repeated: false } }]);
  });
});
