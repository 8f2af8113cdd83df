import { describe, expect, test } from "bun:test";
import type { RequestError } from "../../src/errors.ts";
import { parseJson } from "../../src/http/json.ts";

function refusal(text: string): RequestError {
  try {
    parseJson(text);
  } catch (error) {
    return error as RequestError;
  }
  throw new Error(`${text} was taken`);
}

describe("parseJson", () => {
  test.each([
    ['{"a": [1, -2.5e-3, true, false, null, "x\\n\\u00e9\\"", {}], "b": {"a": []}}'],
    ["  \r\n\t[ ]  "],
    ["0"],
    ['"\\\\"'],
    ["9007199254740991"],
    ["1e300"],
    ['{"constructor": 1, "": 2}'],
    ['{"a": 1, "b": {"a": 1}, "c": [{"a": 1}, {"a": 1}]}'],
  ])("gives what JSON.parse gives for %s", (text) => {
    expect(parseJson(text)).toEqual(JSON.parse(text));
  });

  test.each([
    ['{"a": 1,\n "b": }', "line 2, column 7: a JSON value expected"],
    ['{"a": 1', 'line 1, column 8: "," or "}" expected'],
    ["[1 2]", 'line 1, column 4: "," or "]" expected'],
    ["[1,]", "line 1, column 4: a JSON value expected"],
    ["{a: 1}", "line 1, column 2: a key in double quotes expected"],
    ['{"a" 1}', 'line 1, column 6: ":" expected'],
    ['{"a": "open}', "line 1, column 7: a string is not closed"],
    ['["\\x"]', "line 1, column 2: a string with a bad escape"],
    ['["a\nb"]', "line 1, column 2: a string with a bad escape or a bare control character"],
    ["{} {}", "line 1, column 4: nothing may follow the value"],
    ["", "line 1, column 1: the text ends too early"],
    ["nul", "line 1, column 1: a JSON value expected"],
    ["NaN", "line 1, column 1: a JSON value expected"],
    ["01", "line 1, column 2: nothing may follow the value"],
    ["-", "line 1, column 1: a number expected"],
    ["[".repeat(5_000), "nested deeper than 100"],
  ])("says where it cannot read %j", (text, message) => {
    const error = refusal(text);
    expect(error.reason).toBe("body_unreadable");
    expect(error.detail).toContain(message);
  });

  test.each([
    ['{"task": {"metadata": {"n": 1e400}}}', "task.metadata.n", "1e400 is no number that a double holds"],
    ['{"tasks": [0, {"answer": 1152921504606846977}]}', "tasks.1.answer", "1152921504606846977 is no number"],
    [`[${"9".repeat(400)}]`, "0", "is no number that a double holds"],
    ['{"a": {"n": 1, "n": 2}}', "a.n", "is given twice"],
    ['{"a": 1, "\\u0061": 2}', "a", "is given twice"],
    ['{"labels": {"__proto__": "x"}}', "labels.__proto__", "is no name that a field may have"],
    ['{"task": {"prompt": "\\ud800 alone"}}', "task.prompt", "holds half of a surrogate pair"],
  ])("names the path of what would be lost in %s", (text, path, message) => {
    const error = refusal(text);
    expect(error.reason).toBe("field_invalid");
    expect(error.faults[0]?.path).toBe(path);
    expect(error.faults[0]?.message).toContain(message);
  });
});
