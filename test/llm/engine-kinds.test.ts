import { afterEach, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import type { BackendSpec, Backends } from "../../src/llm/backends.ts";
import { createScriptedSource, encodeScripted } from "../../src/llm/engines/scripted-source.ts";
import { createBackends } from "../../src/llm/registry.ts";
import type { Log } from "../../src/log.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import { until } from "../contract/engine.contract.ts";
import { startFakeChat } from "../support/fake-chat.ts";
import { startFakeProrl } from "../support/fake-prorl.ts";
import { startFakeSglang } from "../support/fake-sglang.ts";
import { type FakeVllmOptions, startFakeVllm } from "../support/fake-vllm.ts";
import { tokenizerFolder } from "../support/tokenizer-folder.ts";

const never = new AbortController().signal;
const open: AsyncDisposable[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each[Symbol.asyncDispose]();
});

function own<T extends AsyncDisposable>(thing: T): T {
  open.push(thing);
  return thing;
}

async function aFolder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "rolloutd-kinds-"));
  own({ [Symbol.asyncDispose]: () => rm(path, { recursive: true }) });
  return path;
}

/** Backends, and what was warned of as `event detail`. */
async function aRegistry(): Promise<{ backends: Backends; warned: string[] }> {
  const warned: string[] = [];
  const nothing = () => {};
  const warn: Log["warn"] = (event, fields) => warned.push(`${event} ${String(fields?.detail)}`);
  const log: Log = { debug: nothing, info: nothing, warn, error: nothing };
  const options = { clock: systemClock, log, backendWaitMs: 2_000, turnMs: 2_000 };
  return { backends: own(await createBackends(options)), warned };
}

function spec(url: string, more: Partial<BackendSpec> = {}): BackendSpec {
  const plain = { model: null, role: "policy", kind: "auto", apiKey: null, weight: 1, policyVersion: null } as const;
  return { url, ...plain, tokenizer: null, ...more };
}

describe("Backends.add", () => {
  test("recognises SGLang by its routes, and serves turns with a tokenizer folder", async () => {
    const { backends } = await aRegistry();
    const { path: tokenizer } = own(await tokenizerFolder(null));
    const { backend } = await backends.add(spec(own(startFakeSglang()).url, { tokenizer }), { probe: true });
    expect(backend).toMatchObject({ state: "healthy", model: "fake", profile: { kind: "sglang", renderer: "local" } });
    const session = await backends.openSession({ model: "fake", jobId: "job_1", signal: never });
    const turn = await session.complete(Int32Array.from([104, 105]), { ...DEFAULT_SAMPLING, maxTokens: 8 }, never);
    expect(turn.endpoint).toBe("/generate");
    session.close();
  });

  test("leaves SGLang without a tokenizer folder unhealthy, and says what is missing", async () => {
    const { backends } = await aRegistry();
    const { backend } = await backends.add(spec(own(startFakeSglang()).url), { probe: true });
    expect(backend.state).toBe("unhealthy");
    expect(backend.detail).toContain("tokenizer folder");
  });

  test("recognises ProRL's trainer, whose context comes from the model's folder", async () => {
    const { backends } = await aRegistry();
    const { path: tokenizer } = own(await tokenizerFolder(null));
    const { url } = own(startFakeProrl());
    const assumed = await backends.add(spec(url, { model: "policy", tokenizer }), { probe: true });
    expect(assumed.backend.profile).toMatchObject({ kind: "prorl", contextTokensMax: 4_096 });
    await Bun.write(join(tokenizer, "config.json"), JSON.stringify({ max_position_embeddings: 40_960 }));
    expect((await backends.probe(assumed.backend.id)).profile?.contextTokensMax).toBe(40_960);
  });

  test("takes a chat-only server only by its kind's name, also at a url that ends with /v1", async () => {
    const { backends } = await aRegistry();
    const { url } = own(startFakeChat());
    const guessed = await backends.add(spec(url), { probe: true });
    expect(guessed.backend.state).toBe("unhealthy");
    expect(guessed.backend.detail).toContain('"chat" is for servers of text alone');
    const named = await backends.add(spec(`${url}/v1`, { kind: "chat" }), { probe: true });
    expect(named.backend).toMatchObject({ state: "healthy", profile: { kind: "chat", tokenExact: false } });
  });

  test("replays a file of recorded trajectories, under another name where one is given", async () => {
    const { backends } = await aRegistry();
    const path = join(await aFolder(), "session.jsonl");
    await Bun.write(path, JSON.stringify(aTrajectory()));
    const { backend } = await backends.add(spec(`replay:${path}`, { model: "again" }), { probe: true });
    expect(backend).toMatchObject({ state: "healthy", model: "again", profile: { kind: "replay" } });
    const session = await backends.openSession({ model: "again", jobId: "job_1", signal: never });
    const prompt = Int32Array.from(encodeScripted("hi").ids);
    const turn = await session.complete(prompt, { ...DEFAULT_SAMPLING, maxTokens: 8 }, never);
    expect(await session.renderer.decode(turn.ids, false)).toBe("yes");
    expect(turn.versions).toEqual([{ version: "3", start: 0, end: 3 }]);
    session.close();
  });
});

function aTrajectory() {
  const { tokenizerHash, templateHash } = createScriptedSource();
  const token_ids = encodeScripted("hiyes").ids;
  const turn = { index: 0, start: 2, end: 5, finish_reason: "stop", stop_reason: null };
  const versions = [{ version: "3", start: 2, end: 5 }];
  return {
    model: "policy",
    tokenizer_hash: tokenizerHash,
    template_hash: templateHash,
    logprobs_mode: "processed",
    branches: [{ token_ids, logprobs: token_ids.map(() => -0.5), versions, turns: [turn] }],
  };
}

describe("Backends.openSession", () => {
  test("refuses a model of text alone, and takes it where tokens need not be exact", async () => {
    const { backends } = await aRegistry();
    await backends.add(spec(own(startFakeChat()).url, { kind: "chat" }), { probe: true });
    const refused = backends.openSession({ model: "fake", jobId: "job_1", signal: never });
    expect(await refused.catch((thrown: unknown) => thrown)).toMatchObject({ reason: "backend_invalid" });
    expect(backends.list()[0]?.load.jobs).toBe(0);
    const session = await backends.openSession({ model: "fake", jobId: "job_1", signal: never, takesText: true });
    expect(session.tokenExact).toBe(false);
    const { ids } = await session.renderer.renderPrompt([{ role: "user", content: "Judge this." }], []);
    // Fewer tokens than bytes: a bound in tokens does not count those.
    const turn = await session.complete(ids, { ...DEFAULT_SAMPLING, maxTokens: 12 }, never);
    expect(await session.renderer.decode(turn.ids, false)).toBe("Hi 😀 there.");
    session.close();
  });

  test.each([
    ["raw", 0.7, 1],
    ["raw", 1, 0],
    ["processed", 0.7, 0],
  ] as const)("of %s log-probs at temperature %p warns %p times", async (logprobsMode, temperature, times) => {
    const { backends, warned } = await aRegistry();
    await backends.add(spec(own(startFakeVllm({ logprobsMode })).url), { probe: true });
    const session = await backends.openSession({ model: "fake", jobId: "job_1", signal: never });
    const sampling = { ...DEFAULT_SAMPLING, maxTokens: 8, temperature };
    for (const id of [104, 105]) await session.complete(Int32Array.from([id]), sampling, never);
    expect(warned.filter((line) => line.startsWith("llm:raw_logprobs")).length).toBe(times);
    session.close();
  });
});

describe("a backend that was away", () => {
  test("is probed anew when it is back, so that what it does now is known", async () => {
    const { backends } = await aRegistry();
    const options: FakeVllmOptions = { logprobsMode: "processed", contextTokens: 512 };
    const first = startFakeVllm(options);
    const { backend } = await backends.add(spec(first.url), { probe: true });
    expect(backend.profile).toMatchObject({ endpoint: "/v1/completions", contextTokensMax: 512 });
    const session = await backends.openSession({ model: "fake", jobId: "job_1", signal: never });
    await first[Symbol.asyncDispose]();
    const port = Number(new URL(first.url).port);
    const versions = (ids: number) => [{ version: "9", start: 0, end: ids }];
    const turn = session.complete(Int32Array.from([104]), { ...DEFAULT_SAMPLING, maxTokens: 8 }, never);
    await until(() => backends.get(backend.id).state === "unhealthy");
    own(startFakeVllm({ ...options, contextTokens: 1_024, port, generate: { versions } }));
    const completion = await turn;
    expect(completion.endpoint).toBe("/inference/v1/generate");
    expect(completion.versions).toEqual([{ version: "9", start: 0, end: completion.ids.length }]);
    expect(backends.get(backend.id).profile).toMatchObject({ contextTokensMax: 1_024, tellsVersions: true });
    session.close();
  });
});
