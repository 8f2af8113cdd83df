import { describe, expect, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import { aGroup, aRequest } from "../support/jobs.ts";
import { aStore, rejectionOf, submitOne, theJob } from "../support/store.ts";

describe("submit", () => {
  test("makes every job of every group, queued, with what was asked", async () => {
    await using opened = await aStore();
    const { store, clock } = opened;
    const request = aRequest({ priority: 3, stream: "train", labels: { run: "a" }, limits: { turnsMax: 2 } });
    const { groups, repeated } = await store.submit(
      [aGroup({ taskId: "a", n: 2, request }), aGroup({ taskId: "b", n: 1 })],
      null,
    );
    expect(repeated).toBe(false);
    expect(groups.map((group) => [group.taskId, group.jobIds.length])).toEqual([
      ["a", 2],
      ["b", 1],
    ]);
    const [first] = groups;
    expect(await theJob(store, first?.jobIds[1] ?? "")).toMatchObject({
      ...request,
      groupId: first?.groupId ?? "",
      taskId: "a",
      sample: 1,
      state: "queued",
      createdAtMs: clock.ms,
      outcome: null,
      attempts: [],
    });
    expect((await store.counts()).queued).toBe(3);
  });

  test("gives back the task's text as it was sent", async () => {
    await using opened = await aStore();
    const taskJson = '{"id": "x",  "handler":"math", "odd": 1.0}';
    const { groups } = await opened.store.submit([aGroup({ taskId: "x", taskJson })], null);
    expect((await opened.store.group(groups[0]?.groupId ?? ""))?.taskJson).toBe(taskJson);
  });

  test("gives the first ids again when key and body are the same", async () => {
    await using opened = await aStore();
    const key = { key: "k", bodyHash: "h" };
    const first = await opened.store.submit([aGroup({ n: 2 })], key);
    const second = await opened.store.submit([aGroup({ n: 2 })], key);
    expect(second).toEqual({ groups: first.groups, repeated: true });
    expect((await opened.store.counts()).queued).toBe(2);
  });

  test("refuses a known key with another body and makes nothing", async () => {
    await using opened = await aStore();
    await opened.store.submit([aGroup()], { key: "k", bodyHash: "h" });
    const other = opened.store.submit([aGroup()], { key: "k", bodyHash: "other" });
    expect(await rejectionOf(other)).toMatchObject({ name: "RequestError", reason: "idempotency_conflict" });
    expect((await opened.store.counts()).queued).toBe(1);
  });

  test("makes one group when two calls with one key arrive together", async () => {
    await using opened = await aStore();
    const key = { key: "k", bodyHash: "h" };
    const both = await Promise.all([opened.store.submit([aGroup()], key), opened.store.submit([aGroup()], key)]);
    expect(both.map((one) => one.repeated)).toEqual([false, true]);
    expect(both[0].groups).toEqual(both[1].groups);
  });

  test("refuses what would exceed the unfinished jobs", async () => {
    await using opened = await aStore();
    const tooMany = opened.store.submit([aGroup({ n: LIMITS.unfinishedJobsMax + 1 })], null);
    expect(await rejectionOf(tooMany)).toMatchObject({ reason: "queue_full" });
    expect(await submitOne(opened.store)).toHaveLength(1);
  });
});
