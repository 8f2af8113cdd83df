import { describe, expect, test } from "bun:test";
import { JsonNumber, parseJson, toJson } from "../../../src/tokens/jinja/json.ts";

describe("parseJson", () => {
  test("keeps the text of numbers and the order of members", () => {
    const value = parseJson('{"b": 1.0, "10": 9007199254740993, "2": [-0, 1e5, true, null, "x"]}');
    expect(value).toEqual(
      new Map<string, unknown>([
        ["b", new JsonNumber("1.0")],
        ["10", new JsonNumber("9007199254740993")],
        ["2", [new JsonNumber("-0"), new JsonNumber("1e5"), true, null, "x"]],
      ]) as never,
    );
    expect([...(value as Map<string, unknown>).keys()]).toEqual(["b", "10", "2"]);
  });

  test("keeps the last value of a repeated key at the first one's place", () => {
    expect([...(parseJson('{"a": 1, "b": 2, "a": 3}') as Map<string, JsonNumber>)]).toEqual([
      ["a", new JsonNumber("3")],
      ["b", new JsonNumber("2")],
    ]);
  });

  test("reads what JSON.parse reads, and refuses what it refuses", () => {
    const texts = [
      '"\\u00e9\\n\\ud83d\\ude00"',
      " [ ] ",
      "{}",
      '[{"a":[]}]',
      "-1.5E-3",
      "0",
      "tru",
      "01",
      "1.",
      "+1",
      "[1,]",
      "{,}",
    ];
    texts.push(
      '{"a" 1}',
      '"a',
      "'a'",
      "[1 2]",
      "{'a':1}",
      "",
      " ",
      "NaN",
      '"\n"',
      "1 2",
      '{"a":1',
      "\u00a01",
      "[",
      '"\\x"',
    );
    for (const text of texts) {
      const native = attempt(() => JSON.parse(text));
      const own = attempt(() => parseJson(text));
      expect([text, own === null]).toEqual([text, native === null]);
    }
  });

  test("refuses nesting that would exhaust the stack", () => {
    expect(() => parseJson("[".repeat(100_000))).toThrow(/deeper than/);
  });
});

describe("toJson", () => {
  test("gives plain values as JSON has them", () => {
    expect(toJson({ a: 1.5, b: [true, null, undefined] })).toEqual(
      new Map<string, unknown>([
        ["a", new JsonNumber("1.5")],
        ["b", [true, null, null]],
      ]) as never,
    );
    expect(toJson(undefined)).toBeNull();
  });
});

function attempt(work: () => unknown): unknown[] | null {
  try {
    return [work()];
  } catch {
    return null;
  }
}
