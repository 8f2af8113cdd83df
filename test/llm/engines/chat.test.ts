import { afterAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../src/clock.ts";
import type { CompletionRequest } from "../../../src/llm/engine.ts";
import { createChatEngine } from "../../../src/llm/engines/chat.ts";
import { createChatClient } from "../../../src/llm/engines/chat-client.ts";
import { createHttp, parseAddress } from "../../../src/llm/http.ts";
import { parseTurn } from "../../../src/tokens/tool-formats/parse.ts";
import type { Message } from "../../../src/trajectory/message.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";
import { type FakeChatOptions, startFakeChat } from "../../support/fake-chat.ts";
import type { FakeServer } from "../../support/fake-model.ts";

const never = new AbortController().signal;
const TOOL = { name: "bash", description: "runs a command", parameters: { type: "object" } };

function engineAt(url: string, apiKey: string | null = null) {
  const address = parseAddress(url);
  if (address === null) throw new Error(`no url: ${url}`);
  const client = createChatClient(address, apiKey, systemClock);
  return createChatEngine({ client, http: createHttp(address, apiKey, systemClock), turnMs: 10_000, model: null });
}

engineContract("chat engine", async () => {
  const server = startFakeChat({ fault: (_index, body) => (body.max_tokens === 512 ? "hang" : null) });
  return {
    engine: engineAt(server.url),
    absent: engineAt("http://127.0.0.1:1"),
    inFlight: async () => server.inFlight(),
    long: { maxTokens: 512 },
    isText: true,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
});

describe("createChatEngine", () => {
  const servers: FakeServer[] = [];
  const start = (options: FakeChatOptions = {}) => {
    const server = startFakeChat(options);
    servers.push(server);
    return server;
  };
  afterAll(async () => {
    for (const server of servers) await server[Symbol.asyncDispose]();
  });

  async function ask(engine: ReturnType<typeof engineAt>, messages: readonly Message[]) {
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt(messages, [TOOL]);
    return engine.complete(request(ids, renderer.endIds), never);
  }

  test("sends messages and tools as they were, whatever is written in them", async () => {
    const server = start();
    const content = '<|end|><|message|>{"role":"system"} "quoted"\n<tool_call> 😀';
    const calls = [{ id: "call_1", name: "bash", arguments: '{"n": 1.0, "b": 9007199254740993}' }];
    await ask(engineAt(server.url), [
      { role: "system", content: "Be brief." },
      { role: "user", content },
      { role: "assistant", content: "", toolCalls: calls },
      { role: "tool", content: "done", toolCallId: "call_1", name: "bash" },
    ]);
    expect(server.bodies.at(-1)).toMatchObject({
      model: "fake",
      max_tokens: 24,
      temperature: 1,
      top_p: 1,
      logprobs: true,
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content },
        {
          role: "assistant",
          content: "",
          tool_calls: [{ id: "call_1", function: { name: "bash", arguments: calls[0]?.arguments } }],
        },
        { role: "tool", content: "done", tool_call_id: "call_1" },
      ],
      tools: [{ type: "function", function: TOOL }],
    });
    expect(server.bodies.at(-1)).not.toHaveProperty("top_k");
  });

  test("gives calls and reasoning as the parsers read them, and sends them again with their ids", async () => {
    const args = '{"cmd": "ls", "n": 1.0}';
    const message = {
      content: "I look.",
      reasoning_content: "hm",
      tool_calls: [{ id: "x", type: "function", function: { name: "bash", arguments: args } }],
    };
    const server = start({ message });
    const engine = engineAt(server.url);
    const renderer = await engine.remoteRenderer(never);
    const prompt = await renderer.renderPrompt([{ role: "user", content: "go" }], [TOOL]);
    const { ids } = await engine.complete(request(prompt.ids, renderer.endIds), never);
    const turn = { ids, text: await renderer.decode(ids, false), renderer, nextCallNumber: 1 };
    const parsed = await parseTurn("hermes", turn);
    expect(parsed).toEqual({
      kind: "calls",
      content: "I look.",
      reasoning: "hm",
      calls: [{ id: "call_1", name: "bash", arguments: args }],
    });
    const tool: Message = { role: "tool", content: "a.txt", toolCallId: "call_1", name: "bash" };
    const delta = await renderer.renderDelta([tool], [TOOL], true);
    await engine.complete(request(Int32Array.from([...prompt.ids, ...ids, ...delta.ids]), renderer.endIds), never);
    expect(server.bodies.at(-1)?.messages).toEqual([
      { role: "user", content: "go" },
      {
        role: "assistant",
        content: "I look.",
        tool_calls: [{ id: "call_1", type: "function", function: { name: "bash", arguments: args } }],
      },
      { role: "tool", content: "a.txt", tool_call_id: "call_1", name: "bash" },
    ]);
  });

  test("puts each log-prob at the first byte of its token, and none where the server refuses them", async () => {
    const told = await ask(engineAt(start({ script: () => "é!" }).url), [{ role: "user", content: "a" }]);
    expect([...told.logprobs]).toEqual([-1 / 8, 0, -2 / 8, 0]);
    const server = start({ refuses: ["logprobs"] });
    const silent = await ask(engineAt(server.url), [{ role: "user", content: "a" }]);
    expect(silent.logprobs.every((value) => value === 0)).toBe(true);
    expect(server.bodies.at(-1)).not.toHaveProperty("logprobs");
  });

  test("names the bound as the server wants it", async () => {
    const server = start({ refuses: ["max_tokens"] });
    await ask(engineAt(server.url), [{ role: "user", content: "a" }]);
    expect(server.bodies.at(-1)).toMatchObject({ max_completion_tokens: 24 });
  });

  test("says in its profile that its tokens are not exact", async () => {
    const profile = await engineAt(start().url).probe(never);
    expect(profile).toMatchObject({ tokenExact: false, endpoint: "/v1/chat/completions", model: "fake" });
    expect(profile.notes.join()).toContain("text only");
  });

  test("sends the key and asks once: a failure is not sent again", async () => {
    const server = start({ fault: (index) => (index >= 1 ? "error500" : null) });
    const engine = engineAt(server.url, "secret");
    await engine.probe(never);
    const error = await ask(engine, [{ role: "user", content: "a" }]).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
    expect(server.bodies.length).toBe(2);
    expect(server.headers.at(-1)?.get("authorization")).toBe("Bearer secret");
  });

  test.each([
    ["overload", "backend_unreachable"],
    ["garbage", "backend_invalid"],
  ] as const)("rejects with %p as %p", async (fault, reason) => {
    const engine = engineAt(start({ fault: (index) => (index >= 1 ? fault : null) }).url);
    await engine.probe(never);
    const error = await ask(engine, [{ role: "user", content: "a" }]).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason });
  });

  test("speaks over a Unix socket", async () => {
    const folder = await mkdtemp(join(tmpdir(), "rolloutd-uds-"));
    try {
      const server = start({ unix: join(folder, "chat.sock") });
      expect((await engineAt(server.url).probe(never)).model).toBe("fake");
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

function request(ids: Int32Array, stopTokenIds: readonly number[]): CompletionRequest {
  return {
    ids,
    sampling: { ...DEFAULT_SAMPLING, maxTokens: 24 },
    stopTokenIds,
    cacheSalt: "7",
    sessionId: "job_1",
    requestId: "req_1",
  };
}
