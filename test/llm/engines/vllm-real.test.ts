import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { z } from "zod";
import { systemClock } from "../../../src/clock.ts";
import { createChatEngine } from "../../../src/llm/engines/chat.ts";
import { createChatClient } from "../../../src/llm/engines/chat-client.ts";
import { createVllmEngine } from "../../../src/llm/engines/vllm.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract, until } from "../../contract/engine.contract.ts";
import { hasNoVllm, onVllm, vllmUrl } from "../../support/vllm.ts";

const never = new AbortController().signal;
// First answers of a loaded vLLM on a CPU have taken 27 s.
setDefaultTimeout(120_000);

type Route = "/v1/completions" | "/inference/v1/generate";
const ROUTES: readonly Route[] = ["/v1/completions", "/inference/v1/generate"];

function httpAt(at: string) {
  const address = parseAddress(at);
  if (address === null) throw new Error(`no url: ${at}`);
  return createHttp(address, null, systemClock);
}

function engineAt(at: string, route: Route) {
  const completionsOnly = route === "/v1/completions";
  return createVllmEngine({ http: httpAt(at), turnMs: 60_000, model: null, completionsOnly });
}

const running = () => counted("num_requests_running");

async function counted(name: string): Promise<number> {
  const { body: metrics } = await httpAt(vllmUrl).text({ method: "GET", path: "/metrics", ms: 30_000, signal: never });
  return Number(new RegExp(`^vllm:${name}\\{[^}]*\\} (\\S+)$`, "m").exec(metrics)?.[1] ?? Number.NaN);
}

if (!hasNoVllm) {
  for (const route of ROUTES) {
    engineContract(`vLLM engine on a real server's ${route}`, async () => ({
      engine: engineAt(vllmUrl, route),
      absent: engineAt("http://127.0.0.1:1", route),
      inFlight: running,
      long: { maxTokens: 1_500 },
      [Symbol.asyncDispose]: async () => {},
    }));
  }
}

const Scored = z.object({
  choices: z.array(
    z.object({ prompt_logprobs: z.array(z.record(z.string(), z.object({ logprob: z.number() })).nullable()) }),
  ),
});

describe.skipIf(hasNoVllm).each(ROUTES)(onVllm("createVllmEngine on a real server's %s"), (route) => {
  async function aRequest(maxTokens: number) {
    const engine = engineAt(vllmUrl, route);
    const { model, abort } = await engine.probe(never);
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt([{ role: "user", content: "Write a poem with emoji 😀." }], []);
    const request = {
      ids,
      sampling: { ...DEFAULT_SAMPLING, maxTokens, seed: 11 },
      stopTokenIds: renderer.endIds,
      cacheSalt: "0",
      sessionId: "job_1",
      requestId: `req_${crypto.randomUUID()}`,
    };
    return { engine, model, abort, request };
  }

  test("is the one that turns take, by what the probe found", async () => {
    const profile = await engineAt(vllmUrl, route).probe(never);
    expect(profile).toMatchObject({
      endpoint: route,
      logprobsMode: "processed",
      contextTokensMax: 2_048,
      streamInterval: true,
      tellsVersions: route === "/inference/v1/generate",
      weights: { route: "/weight_info" },
      devMode: true,
    });
    expect(profile.kvTokens).toBeGreaterThan(2_048);
  });

  test("gives log-probs that the server gives again when it scores the whole sequence", async () => {
    const { engine, model, request } = await aRequest(48);
    const completion = await engine.complete(request, never);
    expect(completion.endpoint).toBe(route);
    expect(completion.firstTokenMs ?? Number.NaN).toBeLessThan(completion.generationMs);
    const answer = await httpAt(vllmUrl).json(Scored, {
      path: "/v1/completions",
      ms: 60_000,
      signal: never,
      body: { model, prompt: [...request.ids, ...completion.ids], max_tokens: 1, prompt_logprobs: 0 },
    });
    for (const [index, id] of completion.ids.entries()) {
      const again = answer.choices[0]?.prompt_logprobs[request.ids.length + index]?.[String(id)]?.logprob ?? Number.NaN;
      expect(Math.abs(again - (completion.logprobs[index] ?? 0))).toBeLessThan(1e-3);
    }
  });

  test("has its turn ended by the id that the probe found, with what was sampled so far", async () => {
    const { engine, abort, request } = await aRequest(1_500);
    const turn = engine.complete({ ...request, stopTokenIds: [] }, never);
    await until(async () => (await running()) > 0);
    const id = abort?.id.replace("{id}", request.requestId);
    await httpAt(vllmUrl).text({ path: abort?.route ?? "", ms: 30_000, signal: never, body: { request_ids: [id] } });
    const completion = await turn;
    expect(completion.finishReason).toBe("abort");
    expect(completion.ids.length).toBeLessThan(1_500);
    expect(completion.ids.length).toBe(completion.logprobs.length);
  });
});

describe.skipIf(hasNoVllm)(onVllm("createVllmEngine on a real server whose weights get another name"), () => {
  const rename = (new_version: string) =>
    httpAt(vllmUrl).text({ path: "/update_weight_version", ms: 30_000, signal: never, body: { new_version } });
  // All tests share the server, and none but this one knows of a name.
  afterAll(() => rename("default"));

  test("tells within the turn which tokens came before and which after", async () => {
    const engine = engineAt(vllmUrl, "/inference/v1/generate");
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt([{ role: "user", content: "Count from 1 to 100." }], []);
    const before = await counted("generation_tokens_total");
    const turn = engine.complete(
      {
        ids,
        sampling: { ...DEFAULT_SAMPLING, temperature: 0, maxTokens: 64 },
        stopTokenIds: [],
        cacheSalt: "7",
        sessionId: "job_1",
        requestId: "req_renamed",
      },
      never,
    );
    await until(async () => (await counted("generation_tokens_total")) > before + 2);
    await rename("8");
    const { versions, ids: sampled } = await turn;
    expect(versions.map(({ version }) => version)).toEqual(["7", "8"]);
    expect(versions[0]?.start).toBe(0);
    expect(versions[1]?.start).toBe(versions[0]?.end ?? -1);
    expect(versions[1]?.end).toBe(sampled.length);
  });
});

describe.skipIf(hasNoVllm)(onVllm("createChatEngine on a real server"), () => {
  function chatAt(at: string) {
    const address = parseAddress(at);
    if (address === null) throw new Error(`no url: ${at}`);
    const client = createChatClient(address, null, systemClock);
    return createChatEngine({ client, http: httpAt(at), turnMs: 60_000, model: null });
  }

  test("gives the text, whose log-probs sum to those that the server gives by ids", async () => {
    const engine = chatAt(vllmUrl);
    expect(await engine.probe(never)).toMatchObject({ tokenExact: false, contextTokensMax: 2_048 * 8 });
    const messages = [{ role: "user", content: "Name a colour." }] as const;
    const text = await engine.remoteRenderer(never);
    const exact = engineAt(vllmUrl, "/v1/completions");
    const ids = await exact.remoteRenderer(never);
    const ask = {
      sampling: { ...DEFAULT_SAMPLING, temperature: 0, maxTokens: 12 },
      cacheSalt: "0",
      sessionId: "job_1",
    };
    const said = await engine.complete(
      { ...ask, ids: (await text.renderPrompt(messages, [])).ids, stopTokenIds: text.endIds, requestId: "req_chat" },
      never,
    );
    const sampled = await exact.complete(
      { ...ask, ids: (await ids.renderPrompt(messages, [])).ids, stopTokenIds: ids.endIds, requestId: "req_exact" },
      never,
    );
    expect(await text.decode(said.ids, false)).toBe(await ids.decode(sampled.ids, false));
    expect(said.finishReason).toBe(sampled.finishReason);
    const sum = (values: Float32Array) => values.reduce((total, value) => total + value, 0);
    const untold = sampled.finishReason === "stop" ? (sampled.logprobs.at(-1) ?? 0) : 0;
    expect(Math.abs(sum(said.logprobs) - (sum(sampled.logprobs) - untold))).toBeLessThan(1e-2);
  });
});
