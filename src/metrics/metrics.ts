import { monitorEventLoopDelay } from "node:perf_hooks";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { Reason } from "../errors.ts";
import { STATES, type Stage, type State } from "../job/state.ts";

/** What the server counts about itself. Recording is synchronous, cheap (under 1 us) and never throws. */
export interface Metrics extends Disposable {
  jobFinished(end: { handler: string; endReason: Reason }): void;
  attemptFailed(failure: { stage: Stage; reason: Reason }): void;
  /** Active time of a stage of one job. */
  stageEnded(stage: Stage, ms: number): void;
  turnEnded(turn: { model: string; promptTokens: number; sampledTokens: number; ms: number }): void;
  toolEnded(call: { tool: string; ms: number }): void;
  /** `route` is the pattern (`/v1/jobs/:id`), never the path: ids would make a series each. */
  httpAnswered(request: { method: string; route: string; status: number; ms: number }): void;
  /** Gauges are set when they are asked for, from what their owner knows then. */
  setJobs(counts: Readonly<Record<State, number>>): void;
  setSandboxes(live: number): void;
  setBackends(healthy: number, all: number): void;
  /** How late timers fire on the main thread since the last call, ms. */
  loopLagMs(): { p50: number; p99: number };
  /** The Prometheus text. */
  text(): Promise<string>;
  readonly contentType: string;
}

const SECONDS = [0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3_600];
const NANOSECONDS_PER_MS = 1e6;

/** Metrics in a registry of their own, so that two servers in one process do not share numbers. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: "rolloutd_" });
  const series = createSeries(registry);
  const lag = monitorEventLoopDelay({ resolution: 10 });
  lag.enable();
  return {
    jobFinished: ({ handler, endReason }) => series.finished.inc({ handler, end_reason: endReason }),
    attemptFailed: ({ stage, reason }) => series.failures.inc({ stage, reason }),
    stageEnded: (stage, ms) => series.stageSeconds.observe({ stage }, ms / 1_000),
    turnEnded: ({ model, promptTokens, sampledTokens, ms }) => {
      series.turnSeconds.observe({ model }, ms / 1_000);
      series.tokens.inc({ model, kind: "prompt" }, promptTokens);
      series.tokens.inc({ model, kind: "sampled" }, sampledTokens);
    },
    toolEnded: ({ tool, ms }) => series.toolSeconds.observe({ tool }, ms / 1_000),
    httpAnswered: ({ method, route, status, ms }) => {
      series.httpSeconds.observe({ method, route, status: String(status) }, ms / 1_000);
    },
    setJobs: (counts) => {
      for (const state of STATES) series.jobs.set({ state }, counts[state]);
    },
    setSandboxes: (live) => series.sandboxes.set(live),
    setBackends: (healthy, all) => {
      series.backends.set({ state: "healthy" }, healthy);
      series.backends.set({ state: "other" }, all - healthy);
    },
    loopLagMs: () => readLag(lag),
    text: () => registry.metrics(),
    contentType: registry.contentType,
    [Symbol.dispose]: () => {
      lag.disable();
      registry.clear();
    },
  };
}

function createSeries(registry: Registry) {
  const registers = [registry];
  const counter = (name: string, help: string, labelNames: string[]) =>
    new Counter({ name: `rolloutd_${name}`, help, labelNames, registers });
  const gauge = (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `rolloutd_${name}`, help, labelNames, registers });
  const seconds = (name: string, help: string, labelNames: string[]) =>
    new Histogram({ name: `rolloutd_${name}_seconds`, help, labelNames, buckets: SECONDS, registers });
  return {
    finished: counter("jobs_finished_total", "Finished jobs by handler and end reason", ["handler", "end_reason"]),
    failures: counter("attempts_failed_total", "Attempts and evaluations that failed", ["stage", "reason"]),
    tokens: counter("tokens_total", "Tokens sent as prompt and sampled", ["model", "kind"]),
    jobs: gauge("jobs", "Jobs in each state", ["state"]),
    sandboxes: gauge("sandboxes_live", "Sandboxes that live now"),
    backends: gauge("backends", "Registered LLM servers", ["state"]),
    stageSeconds: seconds("stage", "Active time of a job in INIT, RUN and EVAL", ["stage"]),
    turnSeconds: seconds("turn", "Time of one model call", ["model"]),
    toolSeconds: seconds("tool", "Time of one tool call", ["tool"]),
    httpSeconds: seconds("http_request", "Time to answer a request", ["method", "route", "status"]),
  };
}

function readLag(lag: ReturnType<typeof monitorEventLoopDelay>): { p50: number; p99: number } {
  const inMs = (percentile: number) => {
    const ms = lag.percentile(percentile) / NANOSECONDS_PER_MS;
    return Number.isFinite(ms) ? Math.round(ms * 100) / 100 : 0;
  };
  const read = { p50: inMs(50), p99: inMs(99) };
  lag.reset();
  return read;
}
