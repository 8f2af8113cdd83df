import { afterAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/clock.ts";
import type { CompletionRequest } from "../../../src/llm/engine.ts";
import { createScriptedSource } from "../../../src/llm/engines/scripted-source.ts";
import { createSglangEngine } from "../../../src/llm/engines/sglang.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { TemplateRenderer } from "../../../src/tokens/template-renderer.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";
import { type FakeSglang, type FakeSglangOptions, startFakeSglang } from "../../support/fake-sglang.ts";

const never = new AbortController().signal;

function engineAt(url: string) {
  const address = parseAddress(url);
  if (address === null) throw new Error(`no url: ${url}`);
  return createSglangEngine({ http: createHttp(address, null, systemClock), turnMs: 10_000 });
}

for (const deltas of [false, true]) {
  engineContract(`SGLang engine, streams ${deltas ? "of deltas" : "cumulative"},`, async () => {
    const fault = (_index: number, { sampling_params }: Readonly<Record<string, unknown>>) =>
      (sampling_params as { max_new_tokens: number }).max_new_tokens === 512 ? "hang" : null;
    const server = startFakeSglang({ deltas, fault });
    return {
      engine: engineAt(server.url),
      absent: engineAt("http://127.0.0.1:1"),
      inFlight: async () => server.inFlight(),
      long: { maxTokens: 512 },
      renderer: new TemplateRenderer(createScriptedSource()),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  });
}

describe("createSglangEngine", () => {
  const servers: FakeSglang[] = [];
  const start = (options: FakeSglangOptions = {}) => {
    const server = startFakeSglang(options);
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
  });

  test("tells what the probe found", async () => {
    expect(await engineAt(start().url).probe(never)).toMatchObject({
      kind: "sglang",
      version: "0.5.4",
      model: "fake",
      endpoint: "/generate",
      contextTokensMax: 4_096,
      kvTokens: 65_536,
      slots: 16,
      logprobsMode: "processed",
      streamInterval: true,
      tellsVersions: false,
      abort: { route: "/abort_request", id: "{id}" },
      weights: { route: "/model_info", version: "default" },
    });
    expect((await engineAt(start({ logprobsMode: "raw" }).url).probe(never)).logprobsMode).toBe("raw");
  });

  test("speaks to an older server by its older routes and without stream_interval", async () => {
    const server = start({ old: true });
    const engine = engineAt(server.url);
    expect(await engine.probe(never)).toMatchObject({
      streamInterval: false,
      weights: { route: "/get_model_info", version: "default" },
    });
    expect((await engine.complete(request(), never)).finishReason).toBe("stop");
  });

  test("sends every sampling parameter, the version and its id", async () => {
    const server = start();
    await engineAt(server.url).complete(request(), never);
    expect(server.bodies.at(-1)).toMatchObject({
      rid: "req_1",
      input_ids: [104, 105],
      extra_key: "7",
      return_logprob: true,
      sampling_params: {
        max_new_tokens: 24,
        temperature: 1,
        top_p: 1,
        top_k: -1,
        min_p: 0,
        stop_token_ids: [257],
        skip_special_tokens: false,
        no_stop_trim: true,
        stream_interval: 4_096,
      },
    });
  });

  test("aborts a cancelled turn by its id", async () => {
    const server = start({ fault: (_index, body) => (body.rid ? "hang" : null) });
    const engine = engineAt(server.url);
    await engine.probe(never);
    const controller = new AbortController();
    const running = engine.complete(request(), controller.signal).catch((thrown: unknown) => thrown);
    while (server.inFlight() === 0) await new Promise((resolve) => setImmediate(resolve));
    controller.abort("enough");
    expect(await running).toBe("enough");
    expect(server.aborted).toEqual(["req_1"]);
  });

  test("gives the version that the server tells for the whole turn", async () => {
    const completion = await engineAt(start({ version: () => "8" }).url).complete(request(), never);
    expect(completion.versions).toEqual([{ version: "8", start: 0, end: completion.ids.length }]);
  });

  test("refuses a turn within which the weights changed, since the server does not tell where", async () => {
    const engine = engineAt(start({ version: (event) => String(event) }).url);
    const error = await engine.complete(request(), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
    expect(String(error)).toContain("weights changed from 0 to 1");
  });

  test("takes a stream that ends without a finish reason for an abort", async () => {
    const completion = await engineAt(start({ fault: (_, body) => (body.rid ? "abort" : null) }).url).complete(
      request(),
      never,
    );
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
    const engine = engineAt(start({ fault: (_, body) => (body.rid ? fault : null) }).url);
    const error = await engine.complete(request(), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason });
  });

  test("rejects a prompt beyond the context, which is told within a stream, with context_overflow", async () => {
    const long = { ...request(), ids: new Int32Array(20) };
    const error = await engineAt(start({ contextTokens: 16 }).url)
      .complete(long, never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "context_overflow" });
  });

  test("renders nothing, and says that a tokenizer folder is needed", async () => {
    const error = await engineAt(start().url)
      .remoteRenderer(never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
    expect(String(error)).toContain("tokenizer folder");
  });
});

function request(): CompletionRequest {
  return {
    ids: Int32Array.from([104, 105]),
    sampling: { ...DEFAULT_SAMPLING, maxTokens: 24 },
    stopTokenIds: [257],
    cacheSalt: "7",
    sessionId: "job_1",
    requestId: "req_1",
  };
}
