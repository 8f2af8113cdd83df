import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { State } from "../../job/state.ts";
import type { BackendView } from "../../llm/backends.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { problem } from "../problems.ts";
import { backendToWire } from "../to-wire.ts";

const tag = "service";
const anything = z.record(z.string(), z.unknown());

/** What the server is doing and can do: status, probes, metrics, handlers. */
export function addServiceRoutes(app: OpenAPIHono, deps: AppDeps): void {
  const { rollouts, metrics } = deps;
  mount(
    app,
    { method: "get", path: "/healthz", summary: "The process answers", tag, answers: { 200: anything } },
    (c) => c.json({ status: "ok" }),
  );
  mount(
    app,
    {
      method: "get",
      path: "/readyz",
      summary: "Jobs can be worked on",
      tag,
      answers: { 200: anything },
      problems: [503],
    },
    (c) => {
      const reason = deps.ready();
      return reason === null ? c.json({ status: "ready" }) : problem(c, 503, { reason: "not_ready", detail: reason });
    },
  );
  mount(
    app,
    {
      method: "get",
      path: "/metrics",
      summary: "Numbers for Prometheus",
      tag,
      answers: { 200: z.string() },
      contentType: "text/plain",
    },
    async (c) => {
      metrics.setJobs(await deps.store.counts());
      metrics.setSandboxes(rollouts.status().sandboxes.live);
      const backends = deps.backends.list();
      metrics.setBackends(backends.filter((one) => one.state === "healthy").length, backends.length);
      c.header("Content-Type", metrics.contentType);
      return c.body(await metrics.text());
    },
  );
  mount(
    app,
    { method: "get", path: "/v1/status", summary: "What the server is doing", tag, answers: { 200: anything } },
    async (c) => c.json(await readStatus(deps)),
  );
  mount(
    app,
    { method: "get", path: "/v1/handlers", summary: "Kinds of tasks", tag, answers: { 200: z.array(anything) } },
    (c) =>
      c.json(
        rollouts.handlers().map((handler) => ({
          name: handler.name,
          source: handler.source,
          tools: handler.tools,
          tool_format: handler.toolFormat,
          carry: handler.carry,
          task_schema: handler.taskSchema,
        })),
      ),
  );
}

async function readStatus(deps: AppDeps) {
  const { store, rollouts, backends, metrics, clock } = deps;
  const status = rollouts.status();
  const newest = Number.MAX_SAFE_INTEGER;
  const [jobs, log] = await Promise.all([
    store.counts(),
    store.results({ after: newest, limit: 1, stream: null, groupId: null }),
  ]);
  return {
    version: deps.version,
    uptime_s: Math.floor((clock.nowMs() - deps.startedAtMs) / 1_000),
    ready: deps.ready() === null,
    jobs,
    pools: status.pools,
    sandboxes: {
      live: status.sandboxes.live,
      warm: status.sandboxes.warm,
      ready: status.ready,
      memory_limit_of: status.sandboxes.enforcement.memory,
      cpu_shared: status.sandboxes.enforcement.cpuShared,
      budget: { max: status.sandboxes.max, eval_reserve: status.sandboxes.evalReserve },
    },
    backends: backends.list().map((view) => {
      const { id, url, model, state, load } = backendToWire(view);
      return { id, url, model, state, load };
    }),
    engine_idle_because: idleBecause(backends.list(), jobs),
    loop_lag_ms: metrics.loopLagMs(),
    results: { first: log.first, last: log.last },
  };
}

/** Why no model samples anything now; null when one does. The first cause that explains it. */
function idleBecause(backends: readonly BackendView[], jobs: Readonly<Record<State, number>>): string | null {
  const policies = backends.filter((backend) => backend.role === "policy");
  if (policies.some((backend) => backend.load.turns > 0)) return null;
  if (!policies.some((backend) => backend.state === "healthy")) return "no_healthy_backend";
  if (jobs.running > 0) return "agents_use_tools";
  if (jobs.initializing + jobs.ready > 0) return "sandboxes_start";
  if (jobs.queued > 0) return "queued_jobs_wait";
  return jobs.awaiting_eval + jobs.evaluating > 0 ? "only_grading_left" : "no_jobs";
}
