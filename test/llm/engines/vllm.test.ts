import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../src/clock.ts";
import type { CompletionRequest } from "../../../src/llm/engine.ts";
import { createVllmEngine } from "../../../src/llm/engines/vllm.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";
import batchStream from "../../fixtures/llm/vllm_completions_batch_ids_stream.json";
import singleStream from "../../fixtures/llm/vllm_completions_stream.json";
import generateStream from "../../fixtures/llm/vllm_generate_stream.json";
import type { FakeServer } from "../../support/fake-model.ts";
import { type FakeVllmOptions, startFakeVllm } from "../../support/fake-vllm.ts";

const never = new AbortController().signal;

function engineAt(url: string, options: { apiKey?: string; turnMs?: number } = {}) {
  const address = parseAddress(url);
  if (address === null) throw new Error(`no url: ${url}`);
  const http = createHttp(address, options.apiKey ?? null, systemClock);
  return createVllmEngine({ http, turnMs: options.turnMs ?? 10_000, model: null });
}

engineContract("vLLM engine", async () => {
  const server = startFakeVllm({ fault: (_index, body) => (body.max_tokens === 512 ? "hang" : null) });
  return {
    engine: engineAt(server.url),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: async () => server.inFlight(),
    long: { maxTokens: 512 },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
});

engineContract("vLLM engine on /inference/v1/generate", async () => {
  const server = startFakeVllm({
    generate: { versions: (ids) => [{ version: "default", start: 0, end: ids }] },
    fault: (_index, body) => (body.max_tokens === 512 ? "hang" : null),
  });
  return {
    engine: engineAt(server.url),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: async () => server.inFlight(),
    long: { maxTokens: 512 },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
});

describe("createVllmEngine", () => {
  const servers: FakeServer[] = [];
  const start = (options: FakeVllmOptions = {}) => {
    const server = startFakeVllm(options);
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
  });

  test("sends every sampling parameter, the salt and its ids", async () => {
    const server = start();
    await engineAt(server.url).complete(request({ topK: -1 }), never);
    expect(server.bodies.at(-1)).toMatchObject({
      prompt: [104, 105],
      max_tokens: 24,
      temperature: 1,
      top_p: 1,
      top_k: 0,
      min_p: 0,
      repetition_penalty: 1,
      logprobs: 0,
      return_token_ids: true,
      skip_special_tokens: false,
      cache_salt: "7",
      request_id: "req_1",
      stop_token_ids: [257],
      stream: true,
      stream_interval: 4096,
    });
    expect(server.headers.at(-1)?.get("x-session-id")).toBe("job_1");
    expect(server.headers.at(-1)?.get("x-request-id")).toBe("req_1");
  });

  test("takes a stream that ends without a finish reason for an abort", async () => {
    const server = start({ fault: (index) => (index >= 3 ? "abort" : null) });
    const engine = engineAt(server.url);
    await engine.probe(never);
    const completion = await engine.complete(request(), never);
    expect(completion.finishReason).toBe("abort");
    expect(completion.ids.length).toBe(1);
  });

  test.each([
    ["die", "backend_unreachable"],
    ["error500", "backend_invalid"],
    ["overload", "backend_unreachable"],
    ["lengths", "backend_invalid"],
    ["garbage", "backend_invalid"],
  ] as const)("rejects with %p as %p", async (fault, reason) => {
    const server = start({ fault: (index) => (index >= 3 ? fault : null) });
    const engine = engineAt(server.url);
    await engine.probe(never);
    const error = await engine.complete(request(), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason });
  });

  test("rejects with backend_timeout when no whole answer comes in time, and hangs up", async () => {
    const server = start({ fault: (index) => (index >= 3 ? "hang" : null) });
    const engine = engineAt(server.url, { turnMs: 50 });
    await engine.probe(never);
    const error = await engine.complete(request(), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_timeout" });
    while (server.inFlight() > 0) await new Promise((resolve) => setImmediate(resolve));
  });

  test("rejects a prompt beyond the context with context_overflow", async () => {
    const server = start({ contextTokens: 16 });
    const long = { ...request(), ids: new Int32Array(20) };
    const error = await engineAt(server.url)
      .complete(long, never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "context_overflow" });
  });

  test.each(["raw", "processed"] as const)("finds out that log-probs are %s", async (logprobsMode) => {
    const server = start({ logprobsMode });
    expect((await engineAt(server.url).probe(never)).logprobsMode).toBe(logprobsMode);
  });

  test("sends the API key, and a wrong one is an invalid backend", async () => {
    const server = start({ apiKey: "secret" });
    expect((await engineAt(server.url, { apiKey: "secret" }).probe(never)).model).toBe("fake");
    const error = await engineAt(server.url, { apiKey: "other" })
      .probe(never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
  });

  test("tells what the probe found: routes, cache, mode, versions", async () => {
    const spans = [{ version: "w8", start: 0, end: 1 }];
    const server = start({ logprobsMode: "processed", devMode: true, generate: { versions: () => spans } });
    expect(await engineAt(server.url).probe(never)).toMatchObject({
      endpoint: "/inference/v1/generate",
      tokenExact: true,
      tellsVersions: true,
      abort: { route: "/inference/v1/abort_requests", id: "generate-tokens-{id}" },
      weights: { route: "/weight_info", version: "w8" },
      kvTokens: 8_192,
      streamInterval: true,
      devMode: true,
    });
  });

  test("uses /v1/completions where /inference/v1/generate is closed or tells no versions, and says why", async () => {
    const closed = await engineAt(start().url).probe(never);
    expect(closed).toMatchObject({ endpoint: "/v1/completions", abort: null, weights: null, devMode: false });
    expect(closed.notes.join("\n")).toContain("--enable-scale-out");
    const silent = await engineAt(start({ generate: { versions: () => null } }).url).probe(never);
    expect(silent).toMatchObject({ endpoint: "/v1/completions", tellsVersions: false });
    expect(silent.abort).toEqual({ route: "/inference/v1/abort_requests", id: "cmpl-{id}-0" });
  });

  test("gives the spans of an update within the turn, the unnamed weights by the version that was asked for", async () => {
    const spans = (ids: number) => [
      { version: "default", start: 0, end: Math.min(2, ids) },
      ...(ids > 2 ? [{ version: "8", start: 2, end: ids }] : []),
    ];
    const completion = await engineAt(start({ generate: { versions: spans } }).url).complete(request(), never);
    expect(completion.versions).toEqual([
      { version: "7", start: 0, end: 2 },
      { version: "8", start: 2, end: completion.ids.length },
    ]);
  });

  test("gives no spans where the server was never told a version", async () => {
    const spans = (ids: number) => [{ version: "default", start: 0, end: ids }];
    const completion = await engineAt(start({ generate: { versions: spans } }).url).complete(request(), never);
    expect(completion.versions).toEqual([]);
  });

  test.each([
    ["/inference/v1/generate", "generate-tokens-req_1"],
    ["/v1/completions", "cmpl-req_1-0"],
  ] as const)("aborts a cancelled turn of %s by the id %s", async (endpoint, id) => {
    const versions = endpoint === "/v1/completions" ? null : [{ version: "8", start: 0, end: 1 }];
    const fault = (_index: number, body: Readonly<Record<string, unknown>>) => (body.request_id ? "hang" : null);
    const server = start({ generate: { versions: () => versions }, fault });
    const engine = engineAt(server.url);
    expect((await engine.probe(never)).endpoint).toBe(endpoint);
    const controller = new AbortController();
    const running = engine.complete(request(), controller.signal).catch((thrown: unknown) => thrown);
    while (server.inFlight() === 0) await new Promise((resolve) => setImmediate(resolve));
    controller.abort("enough");
    expect(await running).toBe("enough");
    expect(server.aborted).toEqual([id]);
  });

  test("speaks over a Unix socket", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rolloutd-uds-"));
    try {
      const server = start({ unix: join(folder, "vllm.sock") });
      expect((await engineAt(server.url).probe(never)).model).toBe("fake");
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

describe("createVllmEngine on recorded answers of vLLM 0.32", () => {
  let lines: readonly string[] = [];
  let server: ReturnType<typeof Bun.serve>;
  let prober: FakeServer;
  beforeAll(() => {
    prober = startFakeVllm({ model: "smollm2", generate: { versions: () => generating } });
    server = Bun.serve({
      hostname: "127.0.0.1",
      port: 0,
      async fetch(asked) {
        const { pathname } = new URL(asked.url);
        const body = asked.method === "POST" ? await asked.text() : null;
        // Only turns carry an id; what the probe asks is answered as by any vLLM.
        if (body === null || !body.includes('request_id":')) {
          return fetch(prober.url + pathname, { method: asked.method, body });
        }
        return new Response(lines.map((line) => `${line}\n\n`).join(""), {
          headers: { "content-type": "text/event-stream" },
        });
      },
    });
  });
  afterAll(async () => {
    await server.stop(true);
    await prober[Symbol.asyncDispose]();
  });

  let generating: { version: string; start: number; end: number }[] | null = null;

  function recorded(stream: { response: { sse_lines: string[] } }, route = "/v1/completions") {
    generating = route === "/v1/completions" ? null : [{ version: "8", start: 0, end: 1 }];
    lines = stream.response.sse_lines;
    const address = parseAddress(`http://127.0.0.1:${server.port}`);
    if (address === null) throw new Error("no url");
    return createVllmEngine({ http: createHttp(address, null, systemClock), turnMs: 5_000, model: "smollm2" });
  }

  test("collects ids and log-probs of a stream", async () => {
    const completion = await recorded(singleStream).complete(request(), never);
    expect([...completion.ids]).toEqual([788, 6530, 28, 4170]);
    expect(completion.logprobs[0]).toBeCloseTo(-3.1698765754699707, 6);
    expect(completion.finishReason).toBe("length");
  });

  test("collects ids, log-probs and versions of a stream of /inference/v1/generate", async () => {
    const completion = await recorded(generateStream, "/inference/v1/generate").complete(request(), never);
    expect([...completion.ids]).toEqual([788, 6530, 28, 4170]);
    expect(completion.logprobs[0]).toBeCloseTo(-3.1698765754699707, 6);
    expect(completion.finishReason).toBe("length");
    expect(completion.versions).toEqual([{ version: "step0", start: 0, end: 4 }]);
    expect(completion.endpoint).toBe("/inference/v1/generate");
  });

  test("rejects an answer with more choices than were asked for", async () => {
    const error = await recorded(batchStream)
      .complete(request(), never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
  });
});

function request(sampling: Partial<CompletionRequest["sampling"]> = {}): CompletionRequest {
  return {
    ids: Int32Array.from([104, 105]),
    sampling: { ...DEFAULT_SAMPLING, maxTokens: 24, ...sampling },
    stopTokenIds: [257],
    cacheSalt: "7",
    sessionId: "job_1",
    requestId: "req_1",
  };
}
