/**
 * What a person at a terminal would read of an output: colours and other escape sequences are taken out, a carriage
 * return or backspace goes back and what follows stands over what was there, so of a progress bar the last state is
 * left. What a terminal would move or clear elsewhere on its screen stays in its place: nothing is hidden but what was
 * written over. Bytes that are no text are shown as U+FFFD and counted.
 */

/** Text as a terminal shows it, and how many characters of it stand for bytes that are no text. */
export interface ShownText {
  text: string;
  strange: number;
}

const STRANGE = "\ufffd";
const [ESC, BEL] = ["\x1b", "\x07"];
/** Control characters but tab and newline, and what stands for bytes that are no UTF-8. */
const SPECIAL = String.raw`\x00-\x08\x0b-\x1f\x7f-\x9f\ufffd`;
const HAS_SPECIAL = new RegExp(`[${SPECIAL}]`);
const PLAIN = new RegExp(`[^\\n${SPECIAL}]+`, "y");
/** CSI with its parameters; OSC, DCS, APC, PM and SOS with their text, if it ends in its line; escapes of two characters. */
const ESCAPES = [
  String.raw`\[([0-9;:<=>?]*)[ -/]*([@-~])`,
  `[\\]PX^_][^${BEL}${ESC}\\n]{0,4096}(?:${BEL}|${ESC}\\\\)`,
  "[ -/]+[0-~]",
  "[0-~]",
  "",
];
const ESCAPE = new RegExp(`${ESC}(?:${ESCAPES.join("|")})`, "y");

/** See above. Takes time in proportion to the output, whatever stands in it. */
export function shownText(output: string): ShownText {
  if (!HAS_SPECIAL.test(output)) return { text: output, strange: 0 };
  const screen = new Line();
  for (let at = 0; at < output.length; ) {
    const plain = matchAt(PLAIN, output, at)?.[0] ?? "";
    for (const char of plain.split("")) screen.put(char);
    at += plain.length;
    if (output[at] === ESC) {
      const [whole, parameters = "", final] = matchAt(ESCAPE, output, at) ?? [ESC];
      screen.escape(parameters, final);
      at += whole.length;
    } else if (at < output.length) {
      screen.control(output[at] ?? "");
      at += 1;
    }
  }
  return screen.end();
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** The line that is being written; those before it are done. */
class Line {
  readonly #done: string[] = [];
  #line: string[] = [];
  #column = 0;
  #strange = 0;

  put(char: string): void {
    this.#line[this.#column] = char;
    this.#column += 1;
  }

  control(char: string): void {
    if (char === "\n") this.#newline();
    else if (char === "\r") this.#column = 0;
    else if (char === "\b") this.#column = Math.max(0, this.#column - 1);
    else if (char !== BEL) {
      this.#strange += 1;
      this.put(STRANGE);
    }
  }

  /** `K` clears the line from here on, or all of it; `G` goes to a column, of which programs use the first. */
  escape(parameters: string, final: string | undefined): void {
    if (final === "G" && (parameters === "" || parameters === "1")) this.#column = 0;
    if (final !== "K" || parameters === "1") return;
    if (parameters === "2") this.#column = 0;
    this.#line.length = Math.min(this.#line.length, this.#column);
  }

  end(): ShownText {
    const text = [...this.#done, this.#line.join("")].join("\n").toWellFormed();
    return { text, strange: this.#strange };
  }

  #newline(): void {
    this.#done.push(this.#line.join(""));
    this.#line = [];
    this.#column = 0;
  }
}
