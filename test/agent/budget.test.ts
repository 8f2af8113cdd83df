import { describe, expect, test } from "bun:test";
import { nextTurn } from "../../src/agent/budget.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";

const BUDGET = { turnsMax: 3, tokensMax: 100, contextTokensMax: 200 };
const SAMPLING = { ...DEFAULT_SAMPLING, maxTokens: 50 };

describe("nextTurn", () => {
  test.each([
    [{ turns: 0, sampledTokens: 0 }, 10, { maxTokens: 50, cutBy: "tokens_max" }],
    [{ turns: 1, sampledTokens: 80 }, 10, { maxTokens: 20, cutBy: "tokens_max" }],
    [{ turns: 1, sampledTokens: 0 }, 180, { maxTokens: 20, cutBy: "context_overflow" }],
    [{ turns: 1, sampledTokens: 90 }, 195, { maxTokens: 5, cutBy: "context_overflow" }],
    [{ turns: 3, sampledTokens: 0 }, 10, "turns_max"],
    [{ turns: 1, sampledTokens: 100 }, 10, "tokens_max"],
    [{ turns: 1, sampledTokens: 0 }, 200, "context_overflow"],
    [{ turns: 1, sampledTokens: 0 }, 5_000, "context_overflow"],
  ] as const)("after %o with a prompt of %d tokens gives %o", (spent, promptTokens, expected) => {
    expect(nextTurn(BUDGET, spent, promptTokens, SAMPLING)).toEqual(expected);
  });
});
