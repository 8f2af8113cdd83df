import type { OpenAPIHono } from "@hono/zod-openapi";
import { RequestError } from "../../src/errors.ts";
import { createApp } from "../../src/http/app.ts";
import type { AppDeps } from "../../src/http/deps.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import type { Backends, BackendView } from "../../src/llm/backends.ts";
import type { Log } from "../../src/log.ts";
import { silentLog } from "../../src/log.ts";
import { createMetrics } from "../../src/metrics/metrics.ts";
import type { ImageBuilds } from "../../src/pipeline/image-builds.ts";
import type { Rollouts } from "../../src/pipeline/rollouts.ts";
import type { Store } from "../../src/store/store.ts";
import { aSetClock, aStore, type SetClock } from "./store.ts";

/**
 * The app over a real store in memory. The pipeline is replaced by the least that HTTP sees of it: tasks are taken as
 * they are, and a live job is cancelled by its test.
 */
export async function anApp(over: Partial<AppDeps> = {}) {
  const { store, clock } = await aStore({ clock: aSetClock() });
  const metrics = createMetrics();
  const closing = new AbortController();
  const deps: AppDeps = {
    store,
    rollouts: fakeRollouts(store, clock),
    backends: fakeBackends(clock),
    imageBuilds: noImageBuilds,
    metrics,
    auth: { boundHost: "127.0.0.1", allowedHosts: [], tokens: null },
    clock,
    log: silentLog,
    version: "0.0.0",
    startedAtMs: clock.ms,
    ready: () => null,
    closing: closing.signal,
    ...over,
  };
  const { app, drain } = createApp(deps);
  return {
    app,
    store,
    clock,
    deps,
    drain,
    /** Sends JSON, and gives status and parsed answer. */
    ask: (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      ask(app, { method, path, body, headers }),
    async [Symbol.asyncDispose]() {
      closing.abort();
      await drain();
      metrics[Symbol.dispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

export interface Asked {
  status: number;
  headers: Headers;
  // Tests compare whole answers; what they read of one is checked by the comparison.
  body: Record<string, unknown>;
}

async function ask(
  app: OpenAPIHono,
  sent: { method: string; path: string; body: unknown; headers: Record<string, string> },
): Promise<Asked> {
  const json = sent.body === undefined ? {} : { body: JSON.stringify(sent.body) };
  const type: Record<string, string> = sent.body === undefined ? {} : { "content-type": "application/json" };
  const response = await app.request(sent.path, {
    method: sent.method,
    headers: { ...type, ...sent.headers },
    ...json,
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text === "" ? {} : JSON.parse(text) };
}

/** A log that keeps what it is told as `event message`. */
export function aKeptLog(): { log: Log; lines: string[] } {
  const lines: string[] = [];
  const keep = (event: string, fields: Record<string, unknown> = {}) => {
    lines.push(`${event} ${fields.error instanceof Error ? fields.error.message : ""}`);
  };
  return { log: { debug: keep, info: keep, warn: keep, error: keep }, lines };
}

function fakeRollouts(store: Store, clock: SetClock): Rollouts {
  return {
    submit: ({ tasks, n, request, idempotency }) =>
      store.submit(
        tasks.map((task, index) => {
          const { id = `row/${index}`, handler = "math" } = task as { id?: string; handler?: string };
          return { taskId: id, handler, taskJson: JSON.stringify(task), n, request };
        }),
        idempotency,
      ),
    async cancelJob(jobId) {
      await store.requestCancel(jobId);
      return this.waitForJob(jobId, 0, new AbortController().signal);
    },
    async cancelGroup(groupId) {
      const group = await store.group(groupId);
      if (!group) throw new RequestError("group_unknown", `there is no group ${groupId}`);
      for (const job of group.jobs) await store.requestCancel(job.id);
      return (await store.group(groupId)) ?? group;
    },
    async waitForJob(jobId, waitMs, signal) {
      await clock.sleep(waitMs, signal);
      const job = await store.job(jobId);
      if (!job) throw new RequestError("job_unknown", `there is no job ${jobId}`);
      return job;
    },
    handlers: () => [
      {
        name: "math",
        source: "built-in",
        tools: ["python"],
        toolFormat: "auto",
        carry: ["answer"],
        taskSchema: { type: "object" },
      },
    ],
    limitDefaults: () => DEFAULT_LIMITS,
    images: () => [{ name: "host", id: "abc", source: "host", bytes: null, inUse: 2, lastUsedAtMs: null }],
    status: () => ({
      pools: { init: { slots: 4, busy: 0 }, run: { slots: 8, busy: 1 }, eval: { slots: 2, busy: 0 } },
      ready: 0,
      sandboxes: {
        live: 3,
        warm: 0,
        max: 16,
        evalReserve: 2,
        enforcement: { memory: "process", cpuShared: false, groups: [] },
      },
    }),
  };
}

/** For tests that build no image. */
const noImageBuilds: ImageBuilds = {
  start: () => unexpected("a build"),
  build: () => null,
  remove: () => unexpected("a removal"),
};

function unexpected(what: string): never {
  throw new Error(`${what} was asked for`);
}

function fakeBackends(clock: SetClock): Backends {
  const known = new Map<string, BackendView>();
  const find = (id: string) => {
    const view = known.get(id);
    if (!view) throw new RequestError("backend_unknown", `there is no backend ${id}`);
    return view;
  };
  return {
    async add(spec) {
      const same = [...known.values()].find((view) => view.url === spec.url);
      if (same) return { backend: same, created: false };
      const view: BackendView = {
        url: spec.url,
        model: spec.model,
        role: spec.role,
        kind: spec.kind,
        weight: spec.weight,
        tokenizer: spec.tokenizer,
        id: `bck_${known.size + 1}`,
        policyVersion: spec.policyVersion ?? "0",
        state: "healthy",
        detail: null,
        profile: null,
        load: { jobs: 0, turns: 0, reservedTokens: 0 },
        createdAtMs: clock.ms,
      };
      known.set(view.id, view);
      return { backend: view, created: true };
    },
    list: () => [...known.values()],
    get: find,
    probe: async (id) => find(id),
    drain: async (id) => ({ ...find(id), state: "draining" }),
    async remove(id, { force }) {
      find(id);
      if (!force) throw new RequestError("backend_busy", `2 jobs stick to ${id}`);
      known.delete(id);
    },
    models: () => [],
    onChange: () => () => {},
    openSession: () => Promise.reject(new Error("HTTP opens no sessions")),
    [Symbol.asyncDispose]: async () => {},
  };
}
