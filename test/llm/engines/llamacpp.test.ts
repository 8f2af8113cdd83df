import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../../src/clock.ts";
import type { CompletionRequest } from "../../../src/llm/engine.ts";
import { createLlamaCppEngine } from "../../../src/llm/engines/llamacpp.ts";
import { decodeScripted, encodeScripted } from "../../../src/llm/engines/scripted-source.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract, until } from "../../contract/engine.contract.ts";
import { startFakeLlamaCpp } from "../../support/fake-llamacpp.ts";
import { type FakeOptions, type FakeServer, fakeLogprob } from "../../support/fake-model.ts";
import { type RealModel, startRealModel } from "../../support/model.ts";

// The real server shares its cores with everything else that runs.
setDefaultTimeout(30_000);

const never = new AbortController().signal;

function engineAt(url: string) {
  const address = parseAddress(url);
  if (address === null) throw new Error(`no url: ${url}`);
  return createLlamaCppEngine({ http: createHttp(address, null, systemClock), turnMs: 20_000 });
}

engineContract("llama.cpp engine on a fake server", async () => {
  const server = startFakeLlamaCpp({ fault: (_index, body) => (body.n_predict === 64 ? "hang" : null) });
  return {
    engine: engineAt(server.url),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: async () => server.inFlight(),
    long: { maxTokens: 512 },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
});

engineContract("llama.cpp engine on the real server", async () => {
  const model = await startRealModel();
  return {
    engine: engineAt(model.server.url),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: () => busySlots(model.server.url),
    long: { maxTokens: 1_500 },
    [Symbol.asyncDispose]: () => model[Symbol.asyncDispose](),
  };
});

async function busySlots(url: string): Promise<number> {
  const slots = (await (await fetch(`${url}/slots`)).json()) as { is_processing: boolean }[];
  return slots.filter((slot) => slot.is_processing).length;
}

describe("createLlamaCppEngine", () => {
  const servers: FakeServer[] = [];
  const start = (options: FakeOptions = {}) => {
    const server = startFakeLlamaCpp(options);
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
  });

  test("sends every sampler setting, in an order with temperature first", async () => {
    const server = start();
    await engineAt(server.url).complete(request({ topK: -1, minP: 0.1, temperature: 0.7 }), never);
    expect(server.bodies[0]).toMatchObject({
      temperature: 0.7,
      top_k: 0,
      top_p: 1,
      min_p: 0.1,
      repeat_penalty: 1,
      samplers: ["temperature", "min_p", "top_k", "top_p"],
      n_probs: 1,
      post_sampling_probs: false,
      return_tokens: true,
      stream: false,
      seed: -1,
    });
  });

  test("asks in slices of at most 64 tokens that go on from the ids, each with its own seed", async () => {
    const server = start({ script: () => "x".repeat(150) });
    const completion = await engineAt(server.url).complete(request({ maxTokens: 200, seed: 1 }), never);
    expect(server.bodies.map((body) => body.n_predict)).toEqual([64, 64, 64]);
    expect(server.bodies.map((body) => (body.prompt as number[]).length - request().ids.length)).toEqual([0, 64, 128]);
    expect(new Set(server.bodies.map((body) => body.seed)).size).toBe(3);
    expect(completion.ids.length).toBe(151);
    expect(completion.finishReason).toBe("stop");
  });

  test("fetches exactly the log-probs that are left out inside characters", async () => {
    const server = start({ script: () => "Hi 😀é there." });
    const asked = request();
    const completion = await engineAt(server.url).complete(asked, never);
    expect(decodeScripted([...completion.ids], false)).toBe("Hi 😀é there.");
    const expected = [...completion.ids].map((id, index) => Math.fround(fakeLogprob(id, asked.ids.length + index)));
    expect([...completion.logprobs]).toEqual(expected);
    // One question for the turn, one for each of the 3 + 1 bytes inside characters.
    expect(server.bodies.length).toBe(5);
  });

  test("ends at a stop string that spans two slices, at the token that completes it", async () => {
    const server = start({ script: () => `${"x".repeat(62)}STOPyyyy` });
    const completion = await engineAt(server.url).complete(request({ maxTokens: 200, stop: ["STOP"] }), never);
    expect(decodeScripted([...completion.ids], false)).toBe(`${"x".repeat(62)}STOP`);
    expect(completion).toMatchObject({ finishReason: "stop", stopReason: "STOP" });
    expect(completion.logprobs.length).toBe(completion.ids.length);
  });

  test.each([
    ["die", "backend_unreachable"],
    ["error500", "backend_invalid"],
    ["overload", "backend_unreachable"],
    ["lengths", "backend_invalid"],
    ["abort", "backend_invalid"],
    ["garbage", "backend_invalid"],
  ] as const)("rejects with %p as %p", async (fault, reason) => {
    const server = start({ fault: () => fault });
    const error = await engineAt(server.url)
      .complete(request(), never)
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason });
  });
});

describe("createLlamaCppEngine on the real server", () => {
  let model: RealModel;
  beforeAll(async () => {
    model = await startRealModel();
  });
  afterAll(() => model[Symbol.asyncDispose]());

  async function ask(text: string, sampling: Partial<CompletionRequest["sampling"]>) {
    const engine = engineAt(model.server.url);
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt([{ role: "user", content: text }], []);
    const completion = await engine.complete({ ...request(sampling), ids, stopTokenIds: renderer.endIds }, never);
    return { completion, ids, text: await renderer.decode(completion.ids, false) };
  }

  test("has a log-prob for every id of an answer in emoji, equal to what the model gives at that place", async () => {
    const { completion, ids, text } = await ask("Repeat exactly: 😀😀🎉", { temperature: 0, maxTokens: 16 });
    expect(text).toMatch(/\p{Emoji_Presentation}/u);
    expect(completion.logprobs.length).toBe(completion.ids.length);
    const inside = [...completion.ids].indexOf(10_813);
    expect(inside).toBeGreaterThanOrEqual(0);
    expect(completion.logprobs[inside]).toBeCloseTo(
      await greedyLogprob([...ids, ...completion.ids.slice(0, inside)]),
      2,
    );
  });

  test("gives the same ids greedily whether it asks in one slice or in two", async () => {
    const { completion, ids } = await ask("Tell a long story.", { temperature: 0, maxTokens: 90 });
    const answer = await post("/completion", { prompt: [...ids], n_predict: 90, temperature: 0, return_tokens: true });
    expect([...completion.ids]).toEqual((answer as { tokens: number[] }).tokens.slice(0, completion.ids.length));
  });

  test("samples what the log-probs say: first tokens occur as often as their probability", async () => {
    const engine = engineAt(model.server.url);
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt([{ role: "user", content: "Flip a coin." }], []);
    const counts = new Map<number, { seen: number; p: number }>();
    const draws = 120;
    for (let seed = 0; seed < draws; seed += 1) {
      const one = await engine.complete({ ...request({ maxTokens: 1, seed }), ids, stopTokenIds: [] }, never);
      const id = one.ids[0] ?? -1;
      const known = counts.get(id) ?? { seen: 0, p: Math.exp(one.logprobs[0] ?? 0) };
      counts.set(id, { ...known, seen: known.seen + 1 });
    }
    const common = [...counts.values()].filter(({ p }) => p > 0.05);
    expect(common.length).toBeGreaterThan(0);
    for (const { seen, p } of common) {
      // Five standard deviations: fails once in a million runs when the two agree.
      expect(Math.abs(seen - draws * p)).toBeLessThan(5 * Math.sqrt(draws * p * (1 - p)));
    }
  });

  test("frees the slot soon after a cancel", async () => {
    const controller = new AbortController();
    const engine = engineAt(model.server.url);
    const running = engine.complete({ ...request({ maxTokens: 1_500 }), stopTokenIds: [] }, controller.signal);
    await until(async () => (await busySlots(model.server.url)) > 0);
    controller.abort(new Error("enough"));
    await running.catch(() => {});
    const start = performance.now();
    await until(async () => (await busySlots(model.server.url)) === 0);
    // A slice of 64 tokens at the slowest speed seen, 7 tokens a second.
    expect(performance.now() - start).toBeLessThan(9_000);
  });

  async function post(path: string, body: unknown): Promise<unknown> {
    return (await fetch(model.server.url + path, { method: "POST", body: JSON.stringify(body) })).json();
  }

  async function greedyLogprob(prompt: number[]): Promise<number> {
    const body = { prompt, n_predict: 1, temperature: 0, n_probs: 49_152, logit_bias: [[81, 1_000]] };
    const answer = (await post("/completion", body)) as {
      completion_probabilities: { top_logprobs: { id: number; logprob: number }[] }[];
    };
    return answer.completion_probabilities[0]?.top_logprobs.find(({ id }) => id === 10_813)?.logprob ?? Number.NaN;
  }
});

function request(sampling: Partial<CompletionRequest["sampling"]> = {}): CompletionRequest {
  return {
    ids: Int32Array.from(encodeScripted("<|start|>assistant\n").ids),
    sampling: { ...DEFAULT_SAMPLING, maxTokens: 24, ...sampling },
    stopTokenIds: [257],
    cacheSalt: "7",
    sessionId: "job_1",
    requestId: "req_1",
  };
}
