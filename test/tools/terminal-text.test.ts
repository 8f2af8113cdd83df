import { describe, expect, test } from "bun:test";
import { shownText } from "../../src/tools/terminal-text.ts";

describe("shownText", () => {
  test.each([
    ["plain text", "a\tb\nc\n", "a\tb\nc\n"],
    ["colours", "\x1b[1;31mred\x1b[0m\x1b[38;2;1;2;3m!\x1b[m", "red!"],
    ["a title", "\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink"],
    ["a progress bar", "  1%\r 50%\r100%\ndone\n", "100%\ndone\n"],
    ["a shorter line over a longer one", "abcdef\rxy\n", "xycdef\n"],
    ["a line that is cleared first", "abcdef\r\x1b[Kxy\x1b[1G\x1b[2Kz\n", "z\n"],
    ["CRLF", "a\r\nb\r\n", "a\nb\n"],
    ["backspaces", "abc\b\bX\n\b\bY", "aXc\nY"],
    ["a cleared screen, which hides nothing", "kept\x1b[2J\x1b[H\x1bcnext", "keptnext"],
    ["a bell, and shifts of the character set", "a\x07\x1b(Bb", "ab"],
    ["an escape that is cut off", "a\x1b[31", "a31"],
    ["a title that does not end, which hides nothing", "\x1b]0;text\nnext", "0;text\nnext"],
    ["text beyond the basic plane", "😀\r😁\n", "😁\n"],
  ])("shows %s", (_, output, text) => {
    expect(shownText(output)).toEqual({ text, strange: 0 });
  });

  test("counts what is no text and shows that it was there", () => {
    expect(shownText("a\x00\x1e\x7f\ufffdb")).toEqual({ text: "a\ufffd\ufffd\ufffd\ufffdb", strange: 4 });
  });

  test.each([
    ["returns over a long line", `${"x".repeat(500_000)}${"\ry".repeat(250_000)}`],
    ["lines that are cleared", `${"x".repeat(500_000)}${"\x1b[2Ky".repeat(100_000)}`],
    ["line starts that are cleared", `${"x".repeat(500_000)}${"\x1b[1K".repeat(100_000)}`],
    ["titles that do not end", "\x1b]0".repeat(300_000)],
    ["parameters without an end", `\x1b[${"1;".repeat(400_000)}`],
    ["control characters", "\x00".repeat(1_000_000)],
  ])("takes no longer than a second for a million %s", (_, output) => {
    const start = performance.now();
    shownText(output);
    expect(performance.now() - start).toBeLessThan(1_000);
  });
});
