import { describe, expect, test } from "bun:test";
import { systemClock } from "../../../src/clock.ts";
import { createScriptedEngine } from "../../../src/llm/engines/scripted.ts";
import { decodeScripted, encodeScripted } from "../../../src/llm/engines/scripted-source.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";

const never = new AbortController().signal;

engineContract("scripted engine", async () => {
  let running = 0;
  const engine = createScriptedEngine({
    clock: systemClock,
    script: () => "Hello, how may I help?",
    fault: (what, index) => (what === "complete" && index === slowCall ? "hang" : null),
  });
  // The cancel test asks without stop ids and for many tokens; its call is the one that hangs.
  let slowCall = -1;
  let calls = 0;
  return {
    engine: {
      ...engine,
      async complete(request, signal) {
        if (request.sampling.maxTokens === 512) slowCall = calls;
        calls += 1;
        running += 1;
        try {
          return await engine.complete(request, signal);
        } finally {
          running -= 1;
        }
      },
    },
    absent: createScriptedEngine({ clock: systemClock, script: () => "", fault: () => "die" }),
    inFlight: async () => running,
    long: { maxTokens: 512 },
    [Symbol.asyncDispose]: async () => {},
  };
});

describe("createScriptedEngine", () => {
  test("hands the script the prompt and its last message", async () => {
    const seen: string[] = [];
    const engine = createScriptedEngine({
      clock: systemClock,
      script: (call) => {
        seen.push(call.lastMessage);
        return "ok";
      },
    });
    const renderer = await engine.remoteRenderer(never);
    const { ids } = await renderer.renderPrompt([{ role: "user", content: "2 + 2?" }], []);
    await engine.complete(
      { ids, sampling: DEFAULT_SAMPLING, stopTokenIds: [], cacheSalt: "0", sessionId: "s", requestId: "r" },
      never,
    );
    expect(seen).toEqual(["2 + 2?"]);
  });

  test("encodes and decodes any text without loss", () => {
    const text = 'naïve 😀 <tool_call>{"a": 1}</tool_call><|end|>';
    expect(decodeScripted(encodeScripted(text).ids, true)).toBe(text);
    expect(decodeScripted(encodeScripted(text).ids, false)).toBe('naïve 😀 {"a": 1}');
  });
});
