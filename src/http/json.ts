import { RequestError } from "../errors.ts";

/** Nesting beyond which a body is refused: tasks nest to about ten. */
const DEPTH_MAX = 100;

/**
 * The value of a JSON text. Stricter than JSON.parse, which keeps the last of two equal keys and rounds what a double
 * cannot hold: here nothing that was sent is lost unseen. Throws RequestError body_unreadable with line and column, or
 * field_invalid with the path.
 */
export function parseJson(text: string): unknown {
  new Scanner(text).scan();
  return JSON.parse(text);
}

const SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const CONTROL = /\p{Cc}/u;
const WHOLE = /^-?\d+$/;

/** Walks the text once and builds nothing. */
class Scanner {
  readonly #text: string;
  readonly #path: (string | number)[] = [];
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  scan(): void {
    this.#value();
    this.#skip(SPACE);
    if (this.#at < this.#text.length) throw this.#unreadable("nothing may follow the value");
  }

  #value(): void {
    this.#skip(SPACE);
    const char = this.#text[this.#at];
    if (char === "{") this.#members("}", () => this.#member());
    else if (char === "[") this.#elements();
    else if (char === '"') this.#string();
    else if (char === "-" || (char !== undefined && char >= "0" && char <= "9")) this.#number();
    else this.#literal();
  }

  #elements(): void {
    let index = 0;
    this.#members("]", () => {
      this.#path.push(index);
      this.#value();
      this.#path.pop();
      index += 1;
    });
  }

  /** What stands between brackets, comma by comma. */
  #members(close: "}" | "]", member: () => void): void {
    if (this.#path.length >= DEPTH_MAX) throw this.#unreadable(`nested deeper than ${DEPTH_MAX}`);
    this.#at += 1;
    this.#skip(SPACE);
    if (this.#text[this.#at] === close) {
      this.#at += 1;
      return;
    }
    const keys = close === "}" ? new Set<string>() : null;
    this.#keys.push(keys);
    for (;;) {
      member();
      this.#skip(SPACE);
      const char = this.#text[this.#at];
      if (char !== "," && char !== close) throw this.#unreadable(`"," or "${close}" expected`);
      this.#at += 1;
      if (char === close) break;
    }
    this.#keys.pop();
  }

  /** Keys seen in each open object; null for an open array. */
  readonly #keys: (Set<string> | null)[] = [];

  #member(): void {
    this.#skip(SPACE);
    if (this.#text[this.#at] !== '"') throw this.#unreadable("a key in double quotes expected");
    const key = this.#string();
    const keys = this.#keys.at(-1);
    if (keys?.has(key)) throw this.#invalid(key, "is given twice");
    keys?.add(key);
    // Copied to another object it would be lost, or change what the object is.
    if (key === "__proto__") throw this.#invalid(key, "is no name that a field may have");
    this.#skip(SPACE);
    if (this.#text[this.#at] !== ":") throw this.#unreadable('":" expected');
    this.#at += 1;
    this.#path.push(key);
    this.#value();
    this.#path.pop();
  }

  #string(): string {
    const start = this.#at;
    let end = start;
    for (;;) {
      end = this.#text.indexOf('"', end + 1);
      if (end < 0) throw this.#unreadable("a string is not closed");
      let slashes = 0;
      while (this.#text[end - 1 - slashes] === "\\") slashes += 1;
      if (slashes % 2 === 0) break;
    }
    this.#at = end + 1;
    const value = this.#unescape(start);
    if (!value.isWellFormed()) throw this.#invalid(null, "holds half of a surrogate pair, which UTF-8 cannot keep");
    return value;
  }

  #unescape(start: number): string {
    const bare = this.#text.slice(start + 1, this.#at - 1);
    // Most strings are what they say: decoding each of a million short ones took half of the scan.
    if (!bare.includes("\\") && !CONTROL.test(bare)) return bare;
    try {
      return String(JSON.parse(this.#text.slice(start, this.#at)));
    } catch {
      this.#at = start;
      throw this.#unreadable("a string with a bad escape or a bare control character");
    }
  }

  #number(): void {
    const start = this.#at;
    this.#skip(NUMBER);
    const token = this.#text.slice(start, this.#at);
    const value = Number(token);
    if (token === "" || Number.isNaN(value)) throw this.#unreadable("a number expected");
    const held = WHOLE.test(token) ? Number.isSafeInteger(value) : Number.isFinite(value);
    if (held) return;
    const shown = token.length > 40 ? `${token.slice(0, 40)}...` : token;
    throw this.#invalid(
      null,
      `${shown} is no number that a double holds`,
      "whole numbers up to 2^53 - 1, others up to 1e308",
    );
  }

  #literal(): void {
    for (const word of ["true", "false", "null"]) {
      if (!this.#text.startsWith(word, this.#at)) continue;
      this.#at += word.length;
      return;
    }
    throw this.#unreadable(this.#at < this.#text.length ? "a JSON value expected" : "the text ends too early");
  }

  #skip(pattern: RegExp): void {
    pattern.lastIndex = this.#at;
    this.#at += pattern.exec(this.#text)?.[0].length ?? 0;
  }

  #invalid(key: string | null, message: string, accepted?: string): RequestError {
    const path = [...this.#path, ...(key === null ? [] : [key])].join(".");
    return new RequestError("field_invalid", `${path || "the body"} ${message}`, [
      { path, message, ...(accepted === undefined ? {} : { accepted }) },
    ]);
  }

  #unreadable(what: string): RequestError {
    const before = this.#text.slice(0, this.#at);
    const line = before.split("\n").length;
    const column = this.#at - before.lastIndexOf("\n");
    return new RequestError("body_unreadable", `line ${line}, column ${column}: ${what}`, [
      { path: this.#path.join("."), message: what },
    ]);
  }
}
