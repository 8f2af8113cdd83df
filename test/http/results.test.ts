import { describe, expect, spyOn, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { anApp } from "../support/server.ts";
import { bringTo, submitOne } from "../support/store.ts";

describe("GET /v1/results", () => {
  test("gives finished jobs in order with their trajectories, and where to go on", async () => {
    await using opened = await anApp();
    const { ask, store } = opened;
    await submitOne(store, { n: 3 });
    const jobs = [];
    for (let job = 0; job < 3; job += 1) jobs.push((await bringTo(store, "finished")).jobId);
    const first = await ask("GET", "/v1/results?limit=2");
    expect(first.body).toMatchObject({
      results: [
        {
          seq: 1,
          job: { id: jobs[0] },
          trajectory: { job_id: jobs[0], branches: [{ token_ids: [11, 12, 13, 21, 22] }] },
        },
        { seq: 2, job: { id: jobs[1] } },
      ],
      next: 2,
      last: 3,
    });
    const rest = await ask("GET", "/v1/results?after=2&format=none");
    expect(rest.body).toMatchObject({ results: [{ seq: 3 }], next: 3, last: 3 });
    expect((rest.body.results as object[])[0]).not.toHaveProperty("trajectory");
    expect((await ask("GET", "/v1/results?after=3")).body).toEqual({ results: [], next: 3, last: 3 });
    expect((await ask("GET", "/v1/results?after=99")).body).toEqual({ results: [], next: 99, last: 3 });
  });

  test("lets those who wait sleep through commits that finish no job, since hundreds wait at once", async () => {
    await using opened = await anApp({ clock: systemClock });
    const { store, ask } = opened;
    await submitOne(store);
    const reads = spyOn(store, "results");
    const waiting = ask("GET", "/v1/results?wait_s=30");
    while (reads.mock.calls.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const at = await bringTo(store, "evaluating");
    await store.counts();
    expect(reads).toHaveBeenCalledTimes(1);
    await store.requestCancel(at.jobId);
    await store.endCancelled({ ...at, stage: "eval", run: null });
    expect((await waiting).body).toMatchObject({ results: [{ seq: 1 }] });
    expect(reads).toHaveBeenCalledTimes(2);
  });

  test("moves on past results of other streams", async () => {
    await using opened = await anApp();
    await submitOne(opened.store);
    await bringTo(opened.store, "finished");
    expect((await opened.ask("GET", "/v1/results?stream=train")).body).toEqual({ results: [], next: 1, last: 1 });
  });

  test("gives one result a line when asked for NDJSON", async () => {
    await using opened = await anApp();
    await submitOne(opened.store, { n: 2 });
    await bringTo(opened.store, "finished");
    await bringTo(opened.store, "finished");
    const response = await opened.app.request("/v1/results?format=none", {
      headers: { accept: "application/x-ndjson" },
    });
    expect(response.headers.get("content-type")).toBe("application/x-ndjson");
    const lines = (await response.text()).split("\n");
    expect(lines.slice(0, 2).map((line) => JSON.parse(line).seq)).toEqual([1, 2]);
    expect(lines.slice(2)).toEqual([""]);
  });

  test("waits for the first result and answers as soon as it is committed", async () => {
    await using opened = await anApp({ clock: systemClock });
    await submitOne(opened.store);
    const startedMs = performance.now();
    const waiting = opened.ask("GET", "/v1/results?wait_s=60");
    const { jobId } = await bringTo(opened.store, "finished");
    expect((await waiting).body).toMatchObject({ results: [{ seq: 1, job: { id: jobId } }] });
    expect(performance.now() - startedMs).toBeLessThan(30_000);
  });

  test("answers empty when nothing came in time", async () => {
    await using opened = await anApp({ clock: systemClock });
    expect((await opened.ask("GET", "/v1/results?wait_s=1")).body).toEqual({ results: [], next: 0, last: 0 });
  });

  test("ends its wait when the server begins to stop", async () => {
    const closing = new AbortController();
    await using opened = await anApp({ clock: systemClock, closing: closing.signal });
    const waiting = opened.ask("GET", "/v1/results?wait_s=60");
    closing.abort();
    expect((await waiting).body.results).toEqual([]);
  });

  test("says which is the first one kept when the place asked for has expired", async () => {
    await using opened = await anApp();
    const { ask, store } = opened;
    await submitOne(store, { n: 2 });
    await bringTo(store, "finished");
    await bringTo(store, "finished");
    await store.expireResults(2);
    expect(await ask("GET", "/v1/results?after=0")).toMatchObject({
      status: 410,
      body: { reason: "results_expired", first: 2 },
    });
    expect((await ask("GET", "/v1/results?after=1")).body).toMatchObject({ results: [{ seq: 2 }] });
  });
});

describe("consumers", () => {
  test("commit a place, are listed, and are forgotten", async () => {
    await using opened = await anApp();
    const { ask } = opened;
    const trainer = { name: "trainer", committed: 41, updated_at: "2023-11-14T22:13:20.000Z" };
    expect(await ask("PUT", "/v1/consumers/trainer", { committed: 41 })).toMatchObject({ status: 200, body: trainer });
    expect((await ask("GET", "/v1/consumers")).body).toEqual({ consumers: [trainer] });
    expect((await ask("DELETE", "/v1/consumers/trainer")).status).toBe(204);
    expect((await ask("GET", "/v1/consumers")).body).toEqual({ consumers: [] });
  });
});

describe("backends", () => {
  test("are registered once, shown without their key, drained, and removed", async () => {
    await using opened = await anApp();
    const { ask } = opened;
    const spec = { url: "http://127.0.0.1:8000/", model: "m", api_key: "very-secret", weight: 2 };
    const made = await ask("POST", "/v1/backends", spec);
    expect(made).toMatchObject({
      status: 201,
      body: {
        id: "bck_1",
        url: "http://127.0.0.1:8000",
        policy_version: "0",
        role: "policy",
        weight: 2,
        state: "healthy",
      },
    });
    expect(JSON.stringify(made.body)).not.toContain("very-secret");
    expect((await ask("POST", "/v1/backends", spec)).status).toBe(200);
    expect((await ask("GET", "/v1/backends")).body.backends).toHaveLength(1);
    expect((await ask("POST", "/v1/backends/bck_1/probe")).status).toBe(200);
    expect((await ask("POST", "/v1/backends/bck_1/drain")).body.state).toBe("draining");
    expect(await ask("DELETE", "/v1/backends/bck_1")).toMatchObject({ status: 409, body: { reason: "backend_busy" } });
    expect((await ask("DELETE", "/v1/backends/bck_1?force=true")).status).toBe(204);
    expect((await ask("GET", "/v1/backends/bck_1")).status).toBe(404);
  });
});
