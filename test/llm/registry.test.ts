import { afterEach, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { LLM_LIMITS } from "../../src/limits.ts";
import type { BackendSpec, Backends } from "../../src/llm/backends.ts";
import { createScriptedEngine } from "../../src/llm/engines/scripted.ts";
import { createBackends } from "../../src/llm/registry.ts";
import type { BackendPersistence, StoredBackendLike } from "../../src/llm/stored.ts";
import { silentLog } from "../../src/log.ts";
import { until } from "../contract/engine.contract.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { startFakeLlamaCpp } from "../support/fake-llamacpp.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";

const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

function own<T extends AsyncDisposable>(thing: T): T {
  open.push(thing);
  return thing;
}

async function backendsWith(persistence?: BackendPersistence): Promise<Backends> {
  const options = { clock: systemClock, log: silentLog, backendWaitMs: 2_000, turnMs: 2_000 };
  return own(await createBackends({ ...options, ...(persistence === undefined ? {} : { persistence }) }));
}

function spec(url: string, more: Partial<BackendSpec> = {}): BackendSpec {
  const plain = { model: null, role: "policy", kind: "auto", apiKey: null, weight: 1, policyVersion: null } as const;
  return { url, ...plain, tokenizer: null, ...more };
}

describe("Backends.add", () => {
  test("recognises vLLM and llama.cpp by their routes", async () => {
    const backends = await backendsWith();
    const vllm = await backends.add(spec(own(startFakeVllm()).url), { probe: true });
    const llama = await backends.add(spec(own(startFakeLlamaCpp({ model: "other" })).url), { probe: true });
    expect(vllm.backend).toMatchObject({ state: "healthy", profile: { kind: "vllm", renderer: "remote" } });
    expect(llama.backend).toMatchObject({ state: "healthy", profile: { kind: "llamacpp", slots: 4 } });
    expect([...backends.models()].sort()).toEqual(["fake", "other"]);
  });

  test("registers an unreachable url as unhealthy, and its model once it answers", async () => {
    const backends = await backendsWith();
    const { backend, created } = await backends.add(spec("http://127.0.0.1:1"), { probe: true });
    expect(created).toBe(true);
    expect(backend.state).toBe("unhealthy");
    expect(backend.detail).toContain("backend_unreachable");
    expect(backends.models()).toEqual([]);
  });

  test("gives the known backend when the url is registered again", async () => {
    const backends = await backendsWith();
    const { url } = own(startFakeVllm());
    const first = await backends.add(spec(url), { probe: true });
    const again = await backends.add(spec(url), { probe: true });
    expect(again).toMatchObject({ created: false, backend: { id: first.backend.id } });
  });

  test.each([
    ["another engine", () => startFakeLlamaCpp()],
    ["other weights", () => startFakeVllm({ size: 2 })],
  ])("refuses a second backend of a model on %s with backend_mixed and forgets it", async (_what, startOther) => {
    const backends = await backendsWith();
    await backends.add(spec(own(startFakeVllm()).url), { probe: true });
    const error = await backends.add(spec(own(startOther()).url), { probe: true }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_mixed" });
    expect(backends.list().length).toBe(1);
  });

  test.each(["ftp://x", "127.0.0.1:8000", "unix:relative", "", "http://x/?a=1"])("refuses %p as a url", async (url) => {
    const backends = await backendsWith();
    const error = await backends.add(spec(url), { probe: true }).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "field_invalid" });
  });

  test("answers at once without a probe and becomes healthy by itself", async () => {
    const backends = await backendsWith();
    let changes = 0;
    const stop = backends.onChange(() => changes++);
    const { backend } = await backends.add(spec(own(startFakeVllm()).url), { probe: false });
    expect(backend.state).toBe("probing");
    await until(() => backends.get(backend.id).state === "healthy");
    expect(changes).toBeGreaterThan(0);
    stop();
  });
});

describe("Backends.remove", () => {
  test("refuses while jobs stick to it, and moves them with force", async () => {
    const backends = await backendsWith();
    const first = await backends.add(spec(own(startFakeVllm()).url), { probe: true });
    await backends.add(spec(own(startFakeVllm()).url), { probe: true });
    const signal = new AbortController().signal;
    const session = await backends.openSession({ model: "fake", jobId: "job_1", signal });
    const { id } = first.backend;
    expect(await backends.remove(id, { force: false }).catch((thrown: unknown) => thrown)).toMatchObject({
      reason: "backend_busy",
    });
    await backends.remove(id, { force: true });
    const rendered = await session.renderer.renderPrompt([{ role: "user", content: "a" }], []);
    expect(rendered.ids.length).toBeGreaterThan(0);
    expect(backends.list().map(({ load }) => load.jobs)).toEqual([1]);
    session.close();
    expect(() => backends.get(id)).toThrow("backend_unknown");
  });
});

describe("createBackends", () => {
  test("takes both backends of a model back when both were restarted on other weights", async () => {
    const backends = await backendsWith();
    const ports: number[] = [];
    for (const _each of [1, 2]) {
      await using server = startFakeVllm();
      ports.push(Number(new URL(server.url).port));
      await backends.add(spec(server.url), { probe: true });
    }
    for (const { id } of backends.list()) await backends.probe(id);
    expect(backends.list().map(({ state }) => state)).toEqual(["unhealthy", "unhealthy"]);
    for (const port of ports) own(startFakeVllm({ size: 2, port }));
    for (const { id } of backends.list()) await backends.probe(id);
    expect(backends.list().map(({ state }) => state)).toEqual(["healthy", "healthy"]);
  });

  test("goes on watching when the store fails", async () => {
    const failing: BackendPersistence = {
      load: async () => [],
      save: async (row) => {
        if (row.profileJson !== null) throw new Error("disk full");
      },
      remove: async () => {},
    };
    const clock = new FakeClock();
    let dead = false;
    const engine = createScriptedEngine({ clock, script: () => "", fault: () => (dead ? "die" : null) });
    const options = { clock, log: silentLog, backendWaitMs: 2_000, turnMs: 2_000, engineFor: () => engine };
    const backends = own(await createBackends({ ...options, persistence: failing }));
    const { backend } = await backends.add(spec("scripted:1"), { probe: false });
    await clock.settle();
    expect(backends.get(backend.id).state).toBe("healthy");
    dead = true;
    await clock.advance(LLM_LIMITS.healthFailuresMax * LLM_LIMITS.healthIntervalMs);
    expect(backends.get(backend.id).state).toBe("unhealthy");
  });

  test("loads what an earlier life stored and probes it again", async () => {
    const rows = new Map<string, StoredBackendLike>();
    const persistence: BackendPersistence = {
      load: async () => [...rows.values()],
      save: async (row) => void rows.set(row.id, row),
      remove: async (id) => void rows.delete(id),
    };
    const first = await backendsWith(persistence);
    const { url } = own(startFakeVllm());
    const { backend } = await first.add(spec(url, { policyVersion: "7", weight: 2 }), { probe: true });
    await first.drain(backend.id);
    const second = await backendsWith(persistence);
    expect(second.get(backend.id)).toMatchObject({ url, policyVersion: "7", weight: 2, state: "draining" });
    expect(second.get(backend.id).profile?.model).toBe("fake");
    expect((await second.probe(backend.id)).state).toBe("healthy");
    await second.remove(backend.id, { force: false });
    expect(rows.size).toBe(0);
  });
});
