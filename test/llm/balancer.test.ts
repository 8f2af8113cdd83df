import { describe, expect, test } from "bun:test";
import { type Candidate, choose, shouldLeave } from "../../src/llm/balancer.ts";

function backend(id: string, more: Partial<Candidate> = {}): Candidate {
  return { id, healthy: true, reservedTokens: 0, kvTokens: 1_000, weight: 1, queued: 0, chosenAt: 0, ...more };
}

describe("choose", () => {
  test.each<[string, Candidate[], string | null]>([
    ["nothing when there is no backend", [], null],
    ["nothing when none is healthy", [backend("a", { healthy: false })], null],
    [
      "the one with the least reserved tokens",
      [backend("a", { reservedTokens: 200 }), backend("b", { reservedTokens: 100 })],
      "b",
    ],
    [
      "the larger cache at equal reservations",
      [backend("a", { reservedTokens: 500 }), backend("b", { reservedTokens: 500, kvTokens: 4_000 })],
      "b",
    ],
    [
      "the heavier weight at equal reservations",
      [backend("a", { reservedTokens: 500 }), backend("b", { reservedTokens: 500, weight: 3 })],
      "b",
    ],
    ["the one chosen longest ago in a tie", [backend("a", { chosenAt: 5 }), backend("b", { chosenAt: 2 })], "b"],
    [
      "a healthy one over an idle one that is not",
      [backend("a", { healthy: false }), backend("b", { reservedTokens: 900 })],
      "b",
    ],
    [
      "by tokens alone where no capacity is told",
      [backend("a", { kvTokens: null, reservedTokens: 9 }), backend("b", { kvTokens: null, reservedTokens: 8 })],
      "b",
    ],
    [
      "an untold capacity like the largest told",
      [backend("a", { kvTokens: null, reservedTokens: 100 }), backend("b", { kvTokens: 8_000, reservedTokens: 101 })],
      "a",
    ],
  ])("takes %s", (_what, candidates, expected) => {
    expect(choose(candidates, 10)).toBe(expected);
  });

  test("gives a backend that joins late its share of running jobs and no more", () => {
    const state = [backend("a", { reservedTokens: 400 }), backend("b", { reservedTokens: 400 }), backend("late")];
    for (let job = 0; job < 8; job += 1) {
      const chosen = state.find(({ id }) => id === choose(state, 100));
      if (chosen !== undefined)
        Object.assign(chosen, { reservedTokens: chosen.reservedTokens + 100, chosenAt: job + 1 });
    }
    expect(state.map(({ reservedTokens }) => reservedTokens).toSorted((left, right) => left - right)).toEqual([
      500, 500, 600,
    ]);
  });
});

describe("shouldLeave", () => {
  const busy = { reservedTokens: 900, queued: 3 };
  test.each<[boolean, string, Candidate[]]>([
    [true, "it is gone", [backend("b")]],
    [true, "it is not healthy", [backend("a", { healthy: false }), backend("b")]],
    [true, "it is over the least by the margin and turns queue", [backend("a", busy), backend("b")]],
    [false, "it is over the margin but nothing queues", [backend("a", { reservedTokens: 900 }), backend("b")]],
    [false, "turns queue but it is within the margin", [backend("a", busy), backend("b", { reservedTokens: 800 })]],
    [false, "turns queue and the only other is not healthy", [backend("a", busy), backend("b", { healthy: false })]],
  ])("is %p when %s", (expected, _what, candidates) => {
    expect(shouldLeave("a", candidates, 0.25)).toBe(expected);
  });
});
