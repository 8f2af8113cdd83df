import { describe, expect, test } from "bun:test";
import { memberText } from "../../../src/tokens/tool-formats/json-member.ts";

describe("memberText", () => {
  test.each<[string, string | null]>([
    ['{"a": 1.0}', "1.0"],
    ['{"b": 2, "a": {"x" : [1, {"a": 9}]}, "c": 3}', '{"x" : [1, {"a": 9}]}'],
    ['{"b": "\\"a\\": 5", "a": "}"}', '"}"'],
    ['{"a": 1, "a": 2}', "2"],
    ['{"\\u0061": true}', "true"],
    ['{"b": {"a": 1}}', null],
    ['{"a":{"k":"v, }"}  }', '{"k":"v, }"}'],
    ["{}", null],
  ])("gives the text of a in %s", (json, expected) => {
    expect(memberText(json, "a")).toBe(expected);
  });
});
