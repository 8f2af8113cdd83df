import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../../src/clock.ts";
import { createVllmEngine } from "../../../src/llm/engines/vllm.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";
import { hasNoVllm, onVllm, vllmUrl } from "../../support/vllm.ts";

const never = new AbortController().signal;
// First answers of a loaded vLLM on a CPU have taken 27 s.
setDefaultTimeout(120_000);

function engineAt(at: string) {
  const address = parseAddress(at);
  if (address === null) throw new Error(`no url: ${at}`);
  return createVllmEngine({ http: createHttp(address, null, systemClock), turnMs: 60_000, model: null });
}

async function running(): Promise<number> {
  const metrics = await (await fetch(`${vllmUrl}/metrics`)).text();
  return Number(/^vllm:num_requests_running\{[^}]*\} (\S+)$/m.exec(metrics)?.[1] ?? Number.NaN);
}

if (!hasNoVllm) {
  engineContract("vLLM engine on a real server", async () => ({
    engine: engineAt(vllmUrl),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: running,
    long: { maxTokens: 1_500 },
    [Symbol.asyncDispose]: async () => {},
  }));
}

describe.skipIf(hasNoVllm)(onVllm("createVllmEngine on a real server"), () => {
  test("gives log-probs that the server gives again when it scores the whole sequence", async () => {
    const engine = engineAt(vllmUrl);
    const { model } = await engine.probe(never);
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt([{ role: "user", content: "Write a poem with emoji 😀." }], []);
    const sampling = { ...DEFAULT_SAMPLING, maxTokens: 48, seed: 11 };
    const request = {
      ids,
      sampling,
      stopTokenIds: renderer.endIds,
      cacheSalt: "0",
      sessionId: "job_1",
      requestId: "req_1",
    };
    const completion = await engine.complete(request, never);
    expect(completion.firstTokenMs ?? Number.NaN).toBeLessThan(completion.generationMs);
    const answer = await fetch(`${vllmUrl}/v1/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model, prompt: [...ids, ...completion.ids], max_tokens: 1, prompt_logprobs: 0 }),
    });
    const scored = (await answer.json()) as {
      choices: { prompt_logprobs: (Record<string, { logprob: number }> | null)[] }[];
    };
    for (const [index, id] of completion.ids.entries()) {
      const again = scored.choices[0]?.prompt_logprobs[ids.length + index]?.[String(id)]?.logprob ?? Number.NaN;
      expect(Math.abs(again - (completion.logprobs[index] ?? 0))).toBeLessThan(1e-3);
    }
  });
});
