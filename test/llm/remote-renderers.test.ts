import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { createLlamaCppEngine } from "../../src/llm/engines/llamacpp.ts";
import { createScriptedSource } from "../../src/llm/engines/scripted-source.ts";
import { createVllmEngine } from "../../src/llm/engines/vllm.ts";
import { createHttp, parseAddress } from "../../src/llm/http.ts";
import { compareRenderers } from "../../src/llm/parity.ts";
import type { Renderer } from "../../src/tokens/renderer.ts";
import { TemplateRenderer } from "../../src/tokens/template-renderer.ts";
import type { Message } from "../../src/trajectory/message.ts";
import { startFakeLlamaCpp } from "../support/fake-llamacpp.ts";
import type { FakeServer } from "../support/fake-model.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";

const never = new AbortController().signal;
const here = new TemplateRenderer(createScriptedSource());

function httpOf(server: FakeServer) {
  const address = parseAddress(server.url);
  if (address === null) throw new Error(`no url: ${server.url}`);
  return createHttp(address, null, systemClock);
}

describe.each([
  [
    "vLLM",
    () => startFakeVllm(),
    (server: FakeServer) => createVllmEngine({ http: httpOf(server), turnMs: 1_000, model: null }),
  ],
  [
    "llama.cpp",
    () => startFakeLlamaCpp(),
    (server: FakeServer) => createLlamaCppEngine({ http: httpOf(server), turnMs: 1_000 }),
  ],
] as const)("the remote renderer of %s", (_name, start, engineOf) => {
  let server: FakeServer;
  let remote: Renderer;
  beforeAll(async () => {
    server = start();
    remote = await engineOf(server).remoteRenderer(never);
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test("gives the ids of its server's own template and tokenizer, prompts and deltas of every role", async () => {
    expect(await compareRenderers(here, remote)).toBeNull();
  });

  test("attributes ids as a local renderer does", async () => {
    const messages: Message[] = [
      { role: "system", content: "user" },
      { role: "user", content: "naïve 😀" },
    ];
    const there = await remote.renderPrompt(messages, []);
    expect(there).toEqual(await here.renderPrompt(messages, []));
    const added: Message[] = [{ role: "tool", content: "1\n", toolCallId: "call_1", name: "bash" }];
    expect(await remote.renderDelta(added, [], true)).toEqual(await here.renderDelta(added, [], true));
  });

  test("leaves special tokens out of a text but not markers, unless they are asked for", async () => {
    const { ids } = await here.renderPrompt([{ role: "user", content: "a <tool_call>b" }], []);
    const plain = await remote.decode(ids, false);
    expect(plain).toContain("a <tool_call>b");
    expect(plain).not.toContain("<|start|>");
    expect(await remote.decode(ids, true)).toBe(await here.decode(ids, true));
  });

  test("knows markers that are tokens", () => {
    expect(remote.markerId("<tool_call>")).toBe(here.markerId("<tool_call>"));
    expect(remote.markerId("<nothing>")).toBeNull();
  });

  test("has hashes that another server of the same model shares", async () => {
    const other = start();
    const again = await engineOf(other).remoteRenderer(never);
    expect([again.tokenizerHash, again.templateHash]).toEqual([remote.tokenizerHash, remote.templateHash]);
    await other[Symbol.asyncDispose]();
  });
});
