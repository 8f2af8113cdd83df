import { describe, expect, test } from "bun:test";
import { alignProbabilities } from "../../src/llm/llamacpp-align.ts";

const entry = (id: number) => ({ id, logprob: -id });

describe("alignProbabilities", () => {
  test.each<[string, number[], number[], (number | null)[] | null]>([
    ["all when all are there", [1, 2, 3], [1, 2, 3], [-1, -2, -3]],
    ["null inside a character", [40, 10, 232, 227, 5], [40, 227, 5], [-40, null, null, -227, -5]],
    ["null at the end", [1, 10], [1], [-1, null]],
    ["null for all without entries", [1, 2], [], [null, null]],
    ["null for each place an entry might belong to", [9, 9, 3], [9, 3], [null, null, -3]],
    ["both of two equal ids when both have an entry", [9, 9], [9, 9], [-9, -9]],
    ["nothing for an id that was not sampled", [1, 2], [3], null],
    ["nothing for another order", [1, 2], [2, 1], null],
    ["nothing for more entries than ids", [1], [1, 1], null],
  ])("gives %s", (_what, ids, entries, expected) => {
    expect(alignProbabilities(ids, entries.map(entry))).toEqual(expected);
  });
});
