import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { backendWords } from "../../src/cli/backend-words.ts";
import { WireBackend } from "../../src/cli/wire.ts";
import { systemClock } from "../../src/clock.ts";
import { backendToWire } from "../../src/http/to-wire.ts";
import type { BackendSpec, Backends } from "../../src/llm/backends.ts";
import { createBackends } from "../../src/llm/registry.ts";
import { silentLog } from "../../src/log.ts";
import { startFakeChat } from "../support/fake-chat.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";

describe("backendWords", () => {
  let backends: Backends;
  const opened = new AsyncDisposableStack();
  beforeAll(async () => {
    const options = { clock: systemClock, log: silentLog, backendWaitMs: 1_000, turnMs: 2_000 };
    backends = opened.use(await createBackends(options));
  });
  afterAll(() => opened.disposeAsync());

  /** What the API answers about a backend, read as the command reads it. */
  async function wordsOf(url: string, more: Partial<BackendSpec> = {}): Promise<Map<string, string>> {
    const plain = { model: null, role: "policy", kind: "auto", apiKey: null, weight: 1, policyVersion: null } as const;
    const { backend } = await backends.add({ url, ...plain, tokenizer: null, ...more }, { probe: true });
    const sent: unknown = JSON.parse(JSON.stringify(backendToWire(backend)));
    return new Map(backendWords(WireBackend.parse(sent)));
  }

  test("explains what the probe of a vLLM found", async () => {
    const versions = (ids: number) => [{ version: "w8", start: 0, end: ids }];
    const server = opened.use(startFakeVllm({ logprobsMode: "processed", devMode: true, generate: { versions } }));
    const words = await wordsOf(server.url);
    expect(words.get("engine")).toBe("vllm 0.32.0");
    expect(words.get("turns go to")).toBe("/inference/v1/generate");
    expect(words.get("tokens")).toBe("exact: ids in, ids and log-probs out");
    expect(words.get("log-probs")).toBe("of the sampler, after temperature and cuts");
    expect(words.get("cache")).toBe("8192 tokens");
    expect(words.get("streams")).toBe("in two pieces, the first token and the rest");
    expect(words.get("abort")).toBe("POST /inference/v1/abort_requests with generate-tokens-{id}, and by hanging up");
    expect(words.get("weights")).toBe('each turn tells the version of every token. GET /weight_info said "w8".');
    expect(words.get("development mode")).toContain("on");
    expect(words.get("jobs")).toBe("0");
    expect(words.has("notes")).toBe(false);
  });

  test("warns of raw log-probs, of text alone, and of what is missing", async () => {
    const raw = await wordsOf(opened.use(startFakeVllm({ logprobsMode: "raw", model: "raw" })).url);
    expect(raw.get("log-probs")).toContain("right only at temperature 1");
    expect(raw.get("weights")).toContain("the policy version given here is taken");
    expect(raw.get("development mode")).toContain("off");
    expect(raw.get("notes")).toContain("--logprobs-mode processed_logprobs");
    const text = await wordsOf(opened.use(startFakeChat({ model: "judge" })).url, { kind: "chat", role: "judge" });
    expect(text.get("tokens")).toContain("not for training");
    expect(text.get("abort")).toBe("by hanging up");
  });

  test("tells that there is no profile while no probe has succeeded, and why", async () => {
    const words = await wordsOf("http://127.0.0.1:1");
    expect(words.get("state")).toContain("unhealthy: backend_unreachable");
    expect(words.get("profile")).toBe("none: no probe has succeeded yet");
  });
});
