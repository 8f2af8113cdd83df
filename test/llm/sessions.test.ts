import { describe, expect, test } from "bun:test";
import { RolloutError } from "../../src/errors.ts";
import { LLM_LIMITS } from "../../src/limits.ts";
import type { BackendSpec, Backends } from "../../src/llm/backends.ts";
import type { Engine } from "../../src/llm/engine.ts";
import { createScriptedEngine, type ScriptedFault } from "../../src/llm/engines/scripted.ts";
import { createBackends } from "../../src/llm/registry.ts";
import { silentLog } from "../../src/log.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import { FakeClock } from "../support/fake-clock.ts";

const never = new AbortController().signal;
const TURN_MS = 5_000;
const WAIT_MS = 10_000;

/** One scripted server of a test: which faults its turns have, by number, and how often it was asked. */
interface Fake {
  url: string;
  fault: (what: "complete" | "probe" | "healthy", index: number) => ScriptedFault | null;
  weights?: string;
  contextTokensMax?: number;
}

async function setUp(fakes: readonly Fake[], turnMs = TURN_MS) {
  const clock = new FakeClock();
  const asked: { url: string; ids: number[]; requestId: string }[] = [];
  const engines = new Map<string, Engine>();
  for (const fake of fakes) {
    const engine = createScriptedEngine({
      clock,
      script: () => "the answer",
      model: "policy",
      fault: fake.fault,
      weights: fake.weights ?? "same",
      contextTokensMax: fake.contextTokensMax ?? 4_096,
    });
    engines.set(fake.url, {
      ...engine,
      complete(request, signal) {
        asked.push({ url: fake.url, ids: [...request.ids], requestId: request.requestId });
        // What an HTTP engine does by its own deadline.
        return withDeadline(engine.complete(request, signal), clock, turnMs);
      },
    });
  }
  const backends = await createBackends({
    clock,
    log: silentLog,
    backendWaitMs: WAIT_MS,
    turnMs,
    engineFor: (spec) => engines.get(spec.url) ?? null,
  });
  for (const { url } of fakes) await backends.add(spec(url), { probe: true });
  return { clock, backends, asked };
}

async function withDeadline<T>(work: Promise<T>, clock: FakeClock, ms: number): Promise<T> {
  const late = clock.sleep(ms).then(() => {
    throw new RolloutError("backend_timeout", "late");
  });
  late.catch(() => {});
  return Promise.race([work, late]);
}

function spec(url: string, more: Partial<BackendSpec> = {}): BackendSpec {
  return {
    url,
    model: null,
    role: "policy",
    kind: "scripted",
    apiKey: null,
    weight: 1,
    policyVersion: null,
    tokenizer: null,
    ...more,
  };
}

const well = () => null;
const open = (backends: Backends, jobId = "job_1") => backends.openSession({ model: "policy", jobId, signal: never });
const sampling = { ...DEFAULT_SAMPLING, maxTokens: 64 };
const prompt = Int32Array.from([104, 105, 33]);

describe("a session's turn on a backend that fails", () => {
  const faults: readonly ScriptedFault[] = ["die", "hang", "error500", "lengths", "nan", "empty", "abort"];

  test.each([...faults])("is sent with the same ids to another backend when the first one does: %s", async (fault) => {
    const first: Fake = { url: "scripted:1", fault: (what) => (what === "complete" ? fault : null) };
    const { backends, asked, clock } = await setUp([first, { url: "scripted:2", fault: well }]);
    const session = await open(backends);
    const running = session.complete(prompt, sampling, never);
    await clock.advance(TURN_MS);
    const completion = await running;
    expect(new Set(asked.map(({ ids }) => ids.join()))).toEqual(new Set([prompt.join()]));
    expect(new Set(asked.map(({ requestId }) => requestId)).size).toBe(asked.length);
    expect(session.backendIds.length).toBe(2);
    expect(completion.backendId).toBe(session.backendIds[1] ?? "");
    expect(completion.ids.length).toBe(completion.logprobs.length);
    expect(completion.versions).toEqual([{ version: "0", start: 0, end: completion.ids.length }]);
    session.close();
    await backends[Symbol.asyncDispose]();
  });

  test.each([
    ["die", "backend_unreachable", WAIT_MS],
    ["hang", "backend_timeout", TURN_MS],
    ["error500", "backend_invalid", 0],
    ["lengths", "backend_invalid", 0],
    ["nan", "backend_invalid", 0],
  ] as const)("rejects when there is no other backend and it does: %s", async (fault, reason, ms) => {
    const broken: Fake = { url: "scripted:1", fault: (what) => (what === "healthy" ? null : fault) };
    let probes = 0;
    const { backends, clock, asked } = await setUp([
      { ...broken, fault: (what, index) => (what === "probe" && probes++ === 0 ? null : broken.fault(what, index)) },
    ]);
    const session = await open(backends);
    const failed = session.complete(prompt, sampling, never).catch((error: unknown) => error);
    await clock.advance(ms);
    expect(await failed).toMatchObject({ reason });
    // Wrong answers are asked for once more with a new request id, nothing else is.
    expect(asked.length).toBe(reason === "backend_invalid" ? 2 : 1);
    session.close();
    await backends[Symbol.asyncDispose]();
  });

  test("goes on where it was when its only backend comes back within the wait", async () => {
    const { backends, clock } = await setUp([
      { url: "scripted:1", fault: (what, index) => (what === "complete" && index === 0 ? "die" : null) },
    ]);
    const session = await open(backends);
    const running = session.complete(prompt, sampling, never);
    await clock.advance(2_000);
    expect((await running).ids.length).toBeGreaterThan(0);
    session.close();
    await backends[Symbol.asyncDispose]();
  });

  test("loses none of many turns that break at once, and is back after one short pause", async () => {
    const { backends, clock } = await setUp([
      { url: "scripted:1", fault: (what, index) => (what === "complete" && index < 40 ? "die" : null) },
    ]);
    const sessions = await Promise.all(Array.from({ length: 40 }, (_, index) => open(backends, `job_${index}`)));
    const running = sessions.map((session) => session.complete(prompt, sampling, never));
    await clock.advance(2 * LLM_LIMITS.retryMs);
    expect((await Promise.all(running)).length).toBe(40);
    for (const session of sessions) session.close();
    expect(backends.list()[0]?.load).toEqual({ jobs: 0, turns: 0, reservedTokens: 0 });
    await backends[Symbol.asyncDispose]();
  });

  test("uses one more request and no other backend when a single answer is wrong", async () => {
    const { backends, asked } = await setUp([
      { url: "scripted:1", fault: (what, index) => (what === "complete" && index === 0 ? "nan" : null) },
      { url: "scripted:2", fault: well },
    ]);
    const session = await open(backends);
    await session.complete(prompt, sampling, never);
    expect(asked.map(({ url }) => url)).toEqual(["scripted:1", "scripted:1"]);
    session.close();
    await backends[Symbol.asyncDispose]();
  });

  test("moves as soon as the health questions to a hanging server go unanswered, long before the turn's own bound", async () => {
    let hanging = false;
    const { backends, clock } = await setUp(
      [
        { url: "scripted:1", fault: () => (hanging ? "hang" : null) },
        { url: "scripted:2", fault: well },
      ],
      600_000,
    );
    const session = await open(backends);
    hanging = true;
    const running = session.complete(prompt, sampling, never);
    await clock.advance(LLM_LIMITS.healthFailuresMax * (LLM_LIMITS.healthIntervalMs + LLM_LIMITS.controlMs));
    expect((await running).backendId).toBe(backends.list()[1]?.id ?? "");
    expect(backends.list()[0]).toMatchObject({ state: "unhealthy", load: { jobs: 0, turns: 0 } });
    session.close();
    await backends[Symbol.asyncDispose]();
  });
});

describe("Backends.openSession", () => {
  test("spreads jobs evenly over equal backends and counts them until they close", async () => {
    const { backends } = await setUp([
      { url: "scripted:1", fault: well },
      { url: "scripted:2", fault: well },
      { url: "scripted:3", fault: well },
    ]);
    const sessions = await Promise.all(Array.from({ length: 9 }, (_, index) => open(backends, `job_${index}`)));
    expect(backends.list().map(({ load }) => load.jobs)).toEqual([3, 3, 3]);
    for (const session of sessions) session.close();
    for (const session of sessions) session.close();
    expect(backends.list().map(({ load }) => load)).toEqual(Array(3).fill({ jobs: 0, turns: 0, reservedTokens: 0 }));
    await backends[Symbol.asyncDispose]();
  });

  test("keeps a job's turns on its backend", async () => {
    const { backends, asked } = await setUp([
      { url: "scripted:1", fault: well },
      { url: "scripted:2", fault: well },
    ]);
    const session = await open(backends);
    for (let turn = 0; turn < 5; turn += 1) await session.complete(prompt, sampling, never);
    expect(new Set(asked.map(({ url }) => url)).size).toBe(1);
    session.close();
    await backends[Symbol.asyncDispose]();
  });

  test("moves a job off a backend that drains, at its next turn", async () => {
    const { backends, asked } = await setUp([
      { url: "scripted:1", fault: well },
      { url: "scripted:2", fault: well },
    ]);
    const session = await open(backends);
    await session.complete(prompt, sampling, never);
    await backends.drain(session.backendIds[0] ?? "");
    await session.complete(prompt, sampling, never);
    expect(asked.map(({ url }) => url)).toEqual(["scripted:1", "scripted:2"]);
    session.close();
    await backends[Symbol.asyncDispose]();
  });

  test("waits for a backend that registers in time, and rejects when none does", async () => {
    const { backends, clock } = await setUp([{ url: "scripted:1", fault: well }]);
    await backends.remove(backends.list()[0]?.id ?? "", { force: false });
    const waiting = open(backends);
    const lost = backends
      .openSession({ model: "other", jobId: "job_2", signal: never })
      .catch((error: unknown) => error);
    await backends.add(spec("scripted:1"), { probe: true });
    (await waiting).close();
    await clock.advance(WAIT_MS);
    expect(await lost).toMatchObject({ reason: "backend_unreachable" });
    await backends[Symbol.asyncDispose]();
  });

  test("rejects with the signal's reason while it waits", async () => {
    const { backends } = await setUp([]);
    const controller = new AbortController();
    const waiting = backends.openSession({ model: "policy", jobId: "job_1", signal: controller.signal });
    const reason = new Error("cancelled");
    controller.abort(reason);
    expect(await waiting.catch((error: unknown) => error)).toBe(reason);
    await backends[Symbol.asyncDispose]();
  });

  test("cuts max_tokens to the context and refuses a prompt that fills it", async () => {
    const { backends } = await setUp([{ url: "scripted:1", fault: well, contextTokensMax: 8 }]);
    const session = await open(backends);
    const completion = await session.complete(prompt, sampling, never);
    expect(completion).toMatchObject({ finishReason: "length" });
    expect(completion.ids.length).toBe(5);
    const full = session.complete(new Int32Array(8), sampling, never).catch((error: unknown) => error);
    expect(await full).toMatchObject({ reason: "context_overflow" });
    session.close();
    await backends[Symbol.asyncDispose]();
  });
});
