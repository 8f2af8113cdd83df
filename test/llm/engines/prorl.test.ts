import { afterAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/clock.ts";
import type { CompletionRequest } from "../../../src/llm/engine.ts";
import { createProrlEngine } from "../../../src/llm/engines/prorl.ts";
import { createScriptedSource } from "../../../src/llm/engines/scripted-source.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { TemplateRenderer } from "../../../src/tokens/template-renderer.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";
import type { FakeOptions, FakeServer } from "../../support/fake-model.ts";
import { startFakeProrl } from "../../support/fake-prorl.ts";

const never = new AbortController().signal;

function engineAt(url: string, model: string | null = "policy") {
  const address = parseAddress(url);
  if (address === null) throw new Error(`no url: ${url}`);
  return createProrlEngine({
    http: createHttp(address, null, systemClock),
    turnMs: 10_000,
    model,
    contextTokensMax: null,
  });
}

engineContract("ProRL trainer's engine", async () => {
  const server = startFakeProrl({ fault: (_index, body) => (body.max_tokens === 512 ? "hang" : null) });
  return {
    engine: engineAt(server.url),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: async () => server.inFlight(),
    long: { maxTokens: 512 },
    renderer: new TemplateRenderer(createScriptedSource()),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
});

describe("createProrlEngine", () => {
  const servers: FakeServer[] = [];
  const start = (options: FakeOptions = {}) => {
    const server = startFakeProrl(options);
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
  });

  test("sends vLLM's sampling parameters, lets only the given ids end the turn, and leaves logprobs out", async () => {
    const server = start();
    await engineAt(server.url).complete(request(), never);
    expect(server.bodies.at(-1)).toMatchObject({
      prompt_ids: [104, 105],
      max_tokens: 24,
      temperature: 1,
      top_k: 0,
      stop_token_ids: [257],
      ignore_eos: true,
    });
    expect(server.bodies.at(-1)).not.toHaveProperty("logprobs");
  });

  test("takes a turn that ends neither at a stop id nor at its bound for an abort", async () => {
    const completion = await engineAt(start({ fault: () => "abort" }).url).complete(request(), never);
    expect(completion.finishReason).toBe("abort");
  });

  test("refuses stop strings, of which the server would not tell", async () => {
    const asked = { ...request(), sampling: { ...request().sampling, stop: ["END"] } };
    const error = await engineAt(start().url)
      .complete(asked, never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
  });

  test("is no backend without a model's name, and none whose ids and log-probs differ in number", async () => {
    const refusal = (engine: ReturnType<typeof engineAt>) => engine.probe(never).catch((thrown: unknown) => thrown);
    expect(String(await refusal(engineAt(start().url, null)))).toContain("register it with one");
    expect(await refusal(engineAt(start({ fault: () => "lengths" }).url))).toMatchObject({ reason: "backend_invalid" });
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
