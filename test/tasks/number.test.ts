import { describe, expect, test } from "bun:test";
import { findAnswer } from "../../src/tasks/math/answer.ts";
import { parseNumber, sameNumber } from "../../src/tasks/math/number.ts";

describe("parseNumber", () => {
  test.each([
    ["18", "18.0"],
    ["1,234.50", "1234.5"],
    ["$18.", "18"],
    ["25%", "25"],
    ["3/4", "0.75"],
    ["-2/4", "-0.5"],
    ["6.02e3", "6020"],
    ["0.1", "1/10"],
    ["123456789012345678901234567890", "123456789012345678901234567890.0"],
  ])("reads %s as %s", (left, right) => {
    const [a, b] = [parseNumber(left), parseNumber(right)];
    expect(a !== null && b !== null && sameNumber(a, b)).toBe(true);
  });

  test.each(["", "abc", "1/0", "12 apples", "1,23", "--3", "1.2.3", ".", "9".repeat(201), "1e9999"])(
    "refuses %p",
    (text) => {
      expect(parseNumber(text)).toBeNull();
    },
  );

  test("keeps numbers apart that a double would not", () => {
    const [a, b] = [parseNumber("9007199254740993"), parseNumber("9007199254740992")];
    expect(a !== null && b !== null && sameNumber(a, b)).toBe(false);
  });
});

describe("findAnswer", () => {
  test.each([
    ["So \\boxed{\\frac{1}{2}} it is", "\\frac{1}{2}", "boxed"],
    ["2 + 1 = 3\nANSWER: 3", "3", "ANSWER:"],
    ["5 * 4 = 20\n#### 20", "20", "####"],
    ["ANSWER: 1\nno, wait\nANSWER: 2", "2", "ANSWER:"],
    ["18", "18", "whole"],
  ] as const)("finds in %p the answer %p by %s", (reply, text, by) => {
    expect(findAnswer(reply)).toEqual({ text, by });
  });

  test.each(["", "first 3\nthen 4", `${"so it goes ".repeat(10)}7`])("finds none in %p", (reply) => {
    expect(findAnswer(reply)).toBeNull();
  });
});
