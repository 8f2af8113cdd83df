import { describe, expect, test } from "bun:test";
import { anApp } from "../support/server.ts";
import { bringTo, submitOne } from "../support/store.ts";

describe("GET /v1/status", () => {
  test("tells jobs by state, pools, sandboxes, backends, and the ends of the results log", async () => {
    await using opened = await anApp();
    const { ask, store, clock } = opened;
    await submitOne(store, { n: 2 });
    await bringTo(store, "finished");
    await ask("POST", "/v1/backends", { url: "http://x", model: "m" });
    clock.ms += 61_500;
    expect((await ask("GET", "/v1/status")).body).toMatchObject({
      version: "0.0.0",
      uptime_s: 61,
      jobs: { queued: 1, running: 0, finished: 1 },
      pools: { run: { slots: 8, busy: 1 } },
      sandboxes: { live: 3, budget: { max: 16 } },
      backends: [{ id: "bck_1", state: "healthy", load: { jobs: 0, turns: 0, reserved_tokens: 0 } }],
      loop_lag_ms: { p50: expect.any(Number), p99: expect.any(Number) },
      results: { first: 1, last: 1 },
    });
  });
});

describe("probes", () => {
  test("tell that the process answers, and why it is not ready", async () => {
    await using opened = await anApp({ ready: () => "confinement does not hold" });
    expect((await opened.ask("GET", "/healthz")).status).toBe(200);
    expect(await opened.ask("GET", "/readyz")).toMatchObject({
      status: 503,
      body: { reason: "not_ready", detail: "confinement does not hold" },
    });
  });
});

describe("GET /metrics", () => {
  test("gives Prometheus text with jobs by state and requests by route, not by path", async () => {
    await using opened = await anApp();
    const [id] = await submitOne(opened.store);
    opened.deps.metrics.jobFinished({ handler: "math", endReason: "answered" });
    opened.deps.metrics.stageEnded("run", 2_500);
    opened.deps.metrics.turnEnded({ model: "policy", promptTokens: 3, sampledTokens: 2, ms: 40 });
    await opened.ask("GET", `/v1/jobs/${id}`);
    await opened.ask("GET", "/v1/nothing");
    const response = await opened.app.request("/metrics");
    const text = await response.text();
    expect(response.headers.get("content-type")).toStartWith("text/plain");
    expect(text).toContain('rolloutd_jobs{state="queued"} 1');
    expect(text).toContain('rolloutd_jobs_finished_total{handler="math",end_reason="answered"} 1');
    expect(text).toContain('rolloutd_stage_seconds_sum{stage="run"} 2.5');
    expect(text).toContain('rolloutd_tokens_total{model="policy",kind="sampled"} 2');
    expect(text).toContain("rolloutd_sandboxes_live 3");
    expect(text).toContain('rolloutd_http_request_seconds_count{method="GET",route="/v1/jobs/:id",status="200"} 1');
    expect(text).not.toContain(String(id));
    expect(text).not.toContain("/v1/nothing");
  });
});

describe("GET /openapi.json", () => {
  test("is OpenAPI 3.1 and names every route and the shapes", async () => {
    await using opened = await anApp();
    const { body } = await opened.ask("GET", "/openapi.json");
    expect(body.openapi).toBe("3.1.0");
    const documented = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`),
    );
    const served = opened.app.routes
      .filter(({ method, path }) => method !== "ALL" && !/^\/($|openapi\.json|docs)/.test(path))
      .map(({ method, path }) => `${method} ${path}`);
    expect(documented.sort()).toEqual([...new Set(served)].sort());
    const { schemas } = body.components as { schemas: Record<string, object> };
    for (const name of ["Task", "Submit", "Job", "Trajectory", "Results", "Problem"])
      expect(schemas).toHaveProperty(name);
    expect(JSON.stringify(schemas.Task)).toContain('"handler"');
    const refs = JSON.stringify(body).match(/#\/components\/schemas\/\w+/g) ?? [];
    const known = new Set(Object.keys(schemas).map((name) => `#/components/schemas/${name}`));
    expect(refs.filter((ref) => !known.has(ref))).toEqual([]);
  });

  test("shows a submission that is accepted as it stands", async () => {
    await using opened = await anApp();
    const { body } = await opened.ask("GET", "/openapi.json");
    const { schemas } = body.components as { schemas: { Submit: { example: unknown } } };
    expect(schemas.Submit.example).toMatchObject({ n: 4 });
    expect((await opened.ask("POST", "/v1/jobs", schemas.Submit.example)).status).toBe(202);
  });
});

describe("GET /docs", () => {
  test("is a page whose every part comes from this server", async () => {
    await using opened = await anApp();
    const page = await (await opened.app.request("/docs")).text();
    const parts = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path ?? "");
    expect(parts).toHaveLength(3);
    for (const path of parts) {
      expect(path).toStartWith("/docs/");
      const part = await opened.app.request(path);
      expect([part.status, (await part.text()).length > 50]).toEqual([200, true]);
    }
  });
});

describe("GET /v1/handlers and /v1/images", () => {
  test("tell what can be run", async () => {
    await using opened = await anApp();
    const handlers = await (await opened.app.request("/v1/handlers")).json();
    expect(handlers).toEqual([
      {
        name: "math",
        source: "built-in",
        tools: ["python"],
        tool_format: "auto",
        carry: ["answer"],
        task_schema: { type: "object" },
      },
    ]);
    const images = await (await opened.app.request("/v1/images")).json();
    expect(images).toEqual([{ name: "host", id: "abc", source: "host", bytes: null, in_use: 2, last_used_at: null }]);
  });
});
