import { describe, expect, test } from "bun:test";
import { insertAfter, linesOf, numbered, replaceOnce } from "../../src/tools/edit-text.ts";

const TEXT = "def f():\n    return 1\n\ndef g():\n    return 1\n";

describe("replaceOnce", () => {
  test("replaces text that stands once and names its line", () => {
    expect(replaceOnce(TEXT, "def g():\n    return 1", "def g():\n    return 2")).toEqual({
      text: "def f():\n    return 1\n\ndef g():\n    return 2\n",
      line: 4,
    });
  });

  test("takes $ and backslashes as they are", () => {
    expect(replaceOnce("a b", "b", "$& \\1 $1")).toEqual({ text: "a $& \\1 $1", line: 1 });
  });

  test("names the lines when the text stands several times", () => {
    expect(replaceOnce(TEXT, "return 1", "x")).toEqual({
      problem: expect.stringContaining("occurs 2 times, at lines 2, 5"),
    });
  });

  test("shows lines that differ in spaces only when the text does not occur", () => {
    const result = replaceOnce(TEXT, "\treturn 1", "x");
    expect(result).toEqual({ problem: expect.stringContaining("2:     return 1\n5:     return 1") });
  });

  test.each([
    ["", "x", "is empty"],
    ["def f", "def f", "are equal"],
    ["nowhere", "x", "No line of it is in the file"],
  ])("refuses %j to %j", (oldText, newText, problem) => {
    expect(replaceOnce(TEXT, oldText, newText)).toEqual({ problem: expect.stringContaining(problem) });
  });
});

describe("insertAfter", () => {
  test.each([
    { text: "a\nb\n", after: 0, inserted: "x", expected: "x\na\nb\n", line: 1 },
    { text: "a\nb\n", after: 1, inserted: "x\ny\n", expected: "a\nx\ny\nb\n", line: 2 },
    { text: "a\nb\n", after: 2, inserted: "x", expected: "a\nb\nx\n", line: 3 },
    { text: "a\nb", after: 2, inserted: "x", expected: "a\nb\nx", line: 3 },
    { text: "a\nb", after: 1, inserted: "x", expected: "a\nx\nb", line: 2 },
    { text: "", after: 0, inserted: "x", expected: "x\n", line: 1 },
  ])("puts whole lines into $text after line $after", ({ text, after, inserted, expected, line }) => {
    expect(insertAfter(text, after, inserted)).toEqual({ text: expected, line });
  });

  test("names the accepted lines when the line is not in the file", () => {
    expect(insertAfter("a\nb\n", 3, "x")).toEqual({ problem: expect.stringContaining("use 0 to 2") });
  });
});

describe("numbered", () => {
  test("numbers the asked lines and stops at the end", () => {
    expect(numbered("a\nb\nc\n", 2, 9)).toBe("     2\tb\n     3\tc");
    expect(linesOf("a\n\n")).toEqual(["a", ""]);
  });
});
