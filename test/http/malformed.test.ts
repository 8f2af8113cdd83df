import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import { aKeptLog, anApp } from "../support/server.ts";

const task = { id: "a", handler: "math", prompt: "1+1?", answer: "2" };
const JSON_TYPE = { "content-type": "application/json" };

interface Row {
  what: string;
  method?: string;
  path?: string;
  headers?: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
  status: number;
  reason: string;
  /** Of the first fault, or a part of the detail where there is none. */
  path0?: string;
  says?: string;
}

const submit = (over: unknown) => JSON.stringify(over);
const INVALID = { status: 422, reason: "field_invalid" };
const UNREADABLE = { status: 400, reason: "body_unreadable" };

const ROWS: readonly Row[] = [
  { what: "an empty body", body: "", ...UNREADABLE, says: "the body is empty" },
  { what: "no body at all", ...UNREADABLE, says: "the body is empty" },
  { what: "broken JSON on line 7", body: '{\n\n\n\n\n\n"task": ,}', ...UNREADABLE, says: "line 7, column 9" },
  {
    what: "invalid UTF-8",
    body: Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d),
    ...UNREADABLE,
    says: "byte 2 is no UTF-8",
  },
  { what: "a cut UTF-8 character", body: Uint8Array.of(0x22, 0xe2, 0x82), ...UNREADABLE, says: "is no UTF-8" },
  { what: "UTF-16", body: Buffer.from("{}", "utf16le"), ...UNREADABLE, says: "line 1, column 2" },
  { what: "nesting of 10,000", body: `{"task":${"[".repeat(10_000)}`, ...UNREADABLE, says: "nested deeper than 100" },
  {
    what: "another content type",
    headers: { "content-type": "text/plain" },
    body: "{}",
    ...UNREADABLE,
    says: "application/json",
  },
  { what: "a form", headers: { "content-type": "application/x-www-form-urlencoded" }, body: "a=1", ...UNREADABLE },
  { what: "a second value", body: "{} {}", ...UNREADABLE, says: "nothing may follow" },
  { what: "an array as the body", body: "[]", ...INVALID, path0: "" },
  { what: "null as the body", body: "null", ...INVALID, path0: "" },
  { what: "a string as the body", body: '"task"', ...INVALID, path0: "" },
  { what: "neither task nor tasks", body: "{}", ...INVALID, path0: "task", says: "is missing" },
  { what: "both task and tasks", body: submit({ task, tasks: [task] }), ...INVALID, path0: "task" },
  { what: "a task that is a string", body: submit({ task: "gsm8k/17" }), ...INVALID, path0: "task" },
  { what: "no tasks", body: submit({ tasks: [] }), ...INVALID, path0: "tasks" },
  { what: "a number among the tasks", body: submit({ tasks: [task, 7] }), ...INVALID, path0: "tasks.1" },
  { what: "n of zero", body: submit({ task, n: 0 }), ...INVALID, path0: "n", says: "is below 1" },
  {
    what: "n that is too large",
    body: submit({ task, n: LIMITS.groupSizeMax + 1 }),
    ...INVALID,
    path0: "n",
    says: "is above",
  },
  { what: "a fraction as n", body: submit({ task, n: 1.5 }), ...INVALID, path0: "n" },
  { what: "n as text", body: submit({ task, n: "8" }), ...INVALID, path0: "n" },
  { what: "1e400 in the task", body: '{"task": {"id": "a", "x": 1e400}}', ...INVALID, path0: "task.x" },
  { what: "2^60 as n", body: '{"task": {}, "n": 1152921504606846976}', ...INVALID, path0: "n" },
  { what: "a key given twice", body: '{"n": 1, "n": 2}', ...INVALID, path0: "n", says: "is given twice" },
  {
    what: "an unknown field",
    body: submit({ task, temprature: 1 }),
    status: 422,
    reason: "field_unknown",
    path0: "temprature",
  },
  {
    what: "an unknown sampling field",
    body: submit({ task, sampling: { temp: 1 } }),
    status: 422,
    reason: "field_unknown",
    path0: "sampling.temp",
  },
  {
    what: "a negative temperature",
    body: submit({ task, sampling: { temperature: -1 } }),
    ...INVALID,
    path0: "sampling.temperature",
  },
  { what: "top_p of 0", body: submit({ task, sampling: { top_p: 0 } }), ...INVALID, path0: "sampling.top_p" },
  {
    what: "a seed beyond 32 bits",
    body: submit({ task, sampling: { seed: 2 ** 32 } }),
    ...INVALID,
    path0: "sampling.seed",
  },
  { what: "limits as a list", body: submit({ task, limits: [] }), ...INVALID, path0: "limits" },
  { what: "a limit out of range", body: submit({ task, limits: { run_ms: 1 } }), ...INVALID, path0: "limits.run_ms" },
  { what: "a label that is no text", body: submit({ task, labels: { run: 1 } }), ...INVALID, path0: "labels.run" },
  { what: "an empty model", body: submit({ task, model: "" }), ...INVALID, path0: "model" },
  { what: "an endless priority", body: submit({ task, priority: 1e9 }), ...INVALID, path0: "priority" },
  {
    what: "an empty Idempotency-Key",
    headers: { "idempotency-key": "" },
    body: submit({ task }),
    ...INVALID,
    path0: "Idempotency-Key",
  },
  {
    what: "an Idempotency-Key that is too long",
    headers: { "idempotency-key": "k".repeat(257) },
    body: submit({ task }),
    ...INVALID,
    path0: "Idempotency-Key",
  },
  { what: "an unknown job", method: "GET", path: "/v1/jobs/job_none", status: 404, reason: "job_unknown" },
  {
    what: "the trajectory of an unknown job",
    method: "GET",
    path: "/v1/jobs/x/trajectory",
    status: 404,
    reason: "job_unknown",
  },
  {
    what: "an artifact of an unknown job",
    method: "GET",
    path: "/v1/jobs/x/artifacts/a",
    status: 404,
    reason: "job_unknown",
  },
  { what: "events of an unknown job", method: "GET", path: "/v1/jobs/x/events", status: 404, reason: "job_unknown" },
  { what: "cancelling an unknown job", path: "/v1/jobs/x/cancel", status: 404, reason: "job_unknown" },
  { what: "an unknown group", method: "GET", path: "/v1/groups/x", status: 404, reason: "group_unknown" },
  { what: "an unknown backend", method: "GET", path: "/v1/backends/x", status: 404, reason: "backend_unknown" },
  { what: "an unknown consumer", method: "DELETE", path: "/v1/consumers/x", status: 404, reason: "consumer_unknown" },
  { what: "an unknown route", method: "GET", path: "/v2/jobs", status: 404, reason: "route_unknown" },
  { what: "a path with bad escapes", method: "GET", path: "/v1/jobs/%ff%", status: 404, reason: "job_unknown" },
  { what: "a path with a zero byte", method: "GET", path: "/v1/jobs/%00", status: 404, reason: "job_unknown" },
  {
    what: "another method",
    method: "PATCH",
    path: "/v1/jobs",
    status: 405,
    reason: "method_refused",
    says: "POST, GET",
  },
  { what: "DELETE of the results", method: "DELETE", path: "/v1/results", status: 405, reason: "method_refused" },
  {
    what: "an unknown query parameter",
    method: "GET",
    path: "/v1/jobs?stte=queued",
    status: 422,
    reason: "field_unknown",
    path0: "stte",
  },
  { what: "an unknown state", method: "GET", path: "/v1/jobs?state=done", ...INVALID, path0: "state" },
  { what: "a page of 0", method: "GET", path: "/v1/jobs?limit=0", ...INVALID, path0: "limit" },
  { what: "a page of text", method: "GET", path: "/v1/results?limit=many", ...INVALID, path0: "limit" },
  { what: "a negative place", method: "GET", path: "/v1/results?after=-1", ...INVALID, path0: "after" },
  {
    what: "a place beyond 2^53",
    method: "GET",
    path: "/v1/results?after=99999999999999999",
    ...INVALID,
    path0: "after",
  },
  {
    what: "a wait that is too long",
    method: "GET",
    path: "/v1/results?wait_s=61",
    ...INVALID,
    path0: "wait_s",
    says: "is above 60",
  },
  { what: "an unknown format", method: "GET", path: "/v1/results?format=verl", ...INVALID, path0: "format" },
  { what: "a parameter given twice", method: "GET", path: "/v1/results?after=1&after=2", ...INVALID, path0: "after" },
  {
    what: "a bad Last-Event-ID",
    method: "GET",
    path: "/v1/events",
    headers: { "last-event-id": "x" },
    ...INVALID,
    path0: "Last-Event-ID",
  },
  {
    what: "a consumer without a place",
    method: "PUT",
    path: "/v1/consumers/a",
    body: "{}",
    ...INVALID,
    path0: "committed",
  },
  {
    what: "a consumer before the start",
    method: "PUT",
    path: "/v1/consumers/a",
    body: '{"committed": -1}',
    ...INVALID,
    path0: "committed",
  },
  { what: "a backend without a url", path: "/v1/backends", body: "{}", ...INVALID, path0: "url", says: "is missing" },
  { what: "a backend with a bad url", path: "/v1/backends", body: '{"url": "ftp://x"}', ...INVALID, path0: "url" },
  {
    what: "a backend of unknown kind",
    path: "/v1/backends",
    body: '{"url": "http://x", "kind": "tgi"}',
    ...INVALID,
    path0: "kind",
  },
];

describe("createApp", () => {
  let opened: Awaited<ReturnType<typeof anApp>>;
  const kept = aKeptLog();
  beforeAll(async () => {
    opened = await anApp({ log: kept.log });
  });
  afterAll(async () => {
    await opened[Symbol.asyncDispose]();
  });

  test.each(ROWS)("refuses $what with $status $reason", async (row) => {
    const response = await opened.app.request(row.path ?? "/v1/jobs", {
      method: row.method ?? "POST",
      headers: { ...JSON_TYPE, ...row.headers },
      ...(row.body === undefined ? {} : { body: row.body }),
    });
    const problem = await response.json();
    expect(problem).toMatchObject({ type: "about:blank", status: row.status, reason: row.reason });
    expect(response.status).toBe(row.status);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
    if (row.path0 !== undefined) expect(problem.errors[0].path).toBe(row.path0);
    if (row.says !== undefined) expect(`${problem.detail} ${JSON.stringify(problem.errors)}`).toContain(row.says);
  });

  test("has changed nothing and logged no failure after all of them", async () => {
    expect(Object.values(await opened.store.counts()).every((count) => count === 0)).toBe(true);
    expect(await opened.store.consumers()).toEqual([]);
    expect(kept.lines).toEqual([]);
  });

  test("says what is accepted: ranges, choices and known fields", async () => {
    const accepted = async (body: unknown) => {
      const { body: problem } = await opened.ask("POST", "/v1/jobs", body);
      return (problem.errors as { accepted?: string }[]).map((fault) => fault.accepted);
    };
    expect(await accepted({ task, n: 0 })).toEqual([`integer from 1 to ${LIMITS.groupSizeMax}`]);
    expect(await accepted({ task, sampling: { temperature: 3 } })).toEqual(["number from 0 to 2 (0 is greedy)"]);
    expect((await accepted({ task, limits: { turns: 1 } }))[0]).toContain("turns_max, tokens_max, init_ms");
    const { body: problem } = await opened.ask("GET", "/v1/jobs?state=done");
    expect(problem.errors).toMatchObject([{ accepted: expect.stringContaining('"queued" or "initializing"') }]);
  });

  test("names every fault of a body at once", async () => {
    const { body: problem } = await opened.ask("POST", "/v1/jobs", { task, n: 0, priority: "high", bogus: 1 });
    expect((problem.errors as { path: string }[]).map((fault) => fault.path).sort()).toEqual([
      "bogus",
      "n",
      "priority",
    ]);
  });

  test("answers a bug with a bare 500 and logs it", async () => {
    const { log, lines } = aKeptLog();
    await using broken = await anApp({
      log,
      ready: () => {
        throw new Error("secret of the inside");
      },
    });
    const answer = await broken.ask("GET", "/readyz");
    expect(answer).toMatchObject({ status: 500, body: { reason: "internal" } });
    expect(JSON.stringify(answer.body)).not.toContain("secret");
    expect(lines).toEqual(["http:failed secret of the inside"]);
  });
});
