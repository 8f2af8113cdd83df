import { describe, expect, test } from "bun:test";
import { checkCompletion } from "../../src/llm/check.ts";
import type { Completion } from "../../src/llm/engine.ts";

function completion(more: Partial<Completion> = {}): Completion {
  return {
    ids: Int32Array.from([5, 6]),
    logprobs: Float32Array.from([-0.5, -1]),
    finishReason: "stop",
    stopReason: null,
    versions: [],
    cachedTokens: null,
    firstTokenMs: null,
    generationMs: 1,
    endpoint: "/x",
    ...more,
  };
}

describe("checkCompletion", () => {
  test.each<[string, Partial<Completion>]>([
    ["more ids than log-probs", { logprobs: Float32Array.from([-1]) }],
    ["fewer ids than log-probs", { ids: Int32Array.from([5]) }],
    ["nothing", { ids: new Int32Array(0), logprobs: new Float32Array(0) }],
    ["NaN", { logprobs: Float32Array.from([-1, Number.NaN]) }],
    ["minus infinity", { logprobs: Float32Array.from([Number.NEGATIVE_INFINITY, -1]) }],
    ["a log-prob well above 0", { logprobs: Float32Array.from([0.1, -1]) }],
    ["a negative id", { ids: Int32Array.from([-1, 5]) }],
    ["an id beyond any vocabulary", { ids: Int32Array.from([5, 99_999_999]) }],
    ["more ids than were asked for", { ids: new Int32Array(9).fill(1), logprobs: new Float32Array(9).fill(-1) }],
    ["versions that do not cover the ids", { versions: [{ version: "1", start: 0, end: 1 }] }],
  ])("refuses %s as backend_invalid", (_what, more) => {
    expect(() => checkCompletion(completion(more), 8)).toThrow("backend_invalid");
  });

  test("takes a log-prob that rounding put above 0 as 0 and leaves the others", () => {
    const checked = checkCompletion(completion({ logprobs: Float32Array.from([0.00001, -1]) }), 8);
    expect([...checked.logprobs]).toEqual([0, -1]);
  });

  test("lets an abort come without ids", () => {
    const empty = { ids: new Int32Array(0), logprobs: new Float32Array(0), finishReason: "abort" } as const;
    expect(checkCompletion(completion(empty), 8).ids.length).toBe(0);
  });
});
