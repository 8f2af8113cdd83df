import { TOKEN_LIMITS } from "../../limits.ts";

/** A number as JSON has it: its text, since 1.0, 1e3 and integers beyond 2^53 do not survive as JavaScript numbers. */
export class JsonNumber {
  constructor(readonly text: string) {}
}

/** A JSON value without loss: numbers by their text, members in the order written. */
export type Json = null | boolean | string | JsonNumber | Json[] | Map<string, Json>;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const SPACE = /[ \t\n\r]*/y;
const LITERALS: readonly (readonly [string, Json])[] = [
  ["true", true],
  ["false", false],
  ["null", null],
];

/**
 * Reads JSON without loss. Of a repeated key the last value stays at the first one's place, as in Python. Throws
 * SyntaxError for what is no JSON, and for nesting deeper than `jsonDepthMax`.
 */
export function parseJson(text: string): Json {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.end();
  return value;
}

/** The same value as `JSON.parse` would have it, made of plain objects; what a JavaScript value can say of it. */
export function toJson(value: unknown): Json {
  if (value === undefined) return null;
  return parseJson(JSON.stringify(value) ?? "null");
}

class Reader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(depth: number): Json {
    if (depth > TOKEN_LIMITS.jsonDepthMax)
      throw new SyntaxError(`JSON nested deeper than ${TOKEN_LIMITS.jsonDepthMax}`);
    this.#skip();
    const char = this.#text[this.#at];
    if (char === "{") return this.#object(depth);
    if (char === "[") return this.#array(depth);
    if (char === '"') return this.#string();
    for (const [name, literal] of LITERALS) if (this.#take(name)) return literal;
    NUMBER.lastIndex = this.#at;
    const number = NUMBER.exec(this.#text)?.[0];
    if (number === undefined) throw this.#unexpected();
    this.#at += number.length;
    return new JsonNumber(number);
  }

  end(): void {
    this.#skip();
    if (this.#at < this.#text.length) throw this.#unexpected();
  }

  #object(depth: number): Map<string, Json> {
    const members = new Map<string, Json>();
    this.#at += 1;
    this.#skip();
    if (this.#take("}")) return members;
    for (;;) {
      this.#skip();
      const key = this.#string();
      this.#skip();
      this.#expect(":");
      members.set(key, this.value(depth + 1));
      this.#skip();
      if (this.#take("}")) return members;
      this.#expect(",");
    }
  }

  #array(depth: number): Json[] {
    const items: Json[] = [];
    this.#at += 1;
    this.#skip();
    if (this.#take("]")) return items;
    for (;;) {
      items.push(this.value(depth + 1));
      this.#skip();
      if (this.#take("]")) return items;
      this.#expect(",");
    }
  }

  #string(): string {
    const start = this.#at;
    if (this.#text[start] !== '"') throw this.#unexpected();
    let end = start + 1;
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === "\\" ? 2 : 1;
    if (end >= this.#text.length) throw new SyntaxError("JSON ends inside a string");
    this.#at = end + 1;
    const value: unknown = JSON.parse(this.#text.slice(start, this.#at));
    return String(value);
  }

  #skip(): void {
    SPACE.lastIndex = this.#at;
    this.#at += SPACE.exec(this.#text)?.[0].length ?? 0;
  }

  #take(token: string): boolean {
    if (!this.#text.startsWith(token, this.#at)) return false;
    this.#at += token.length;
    return true;
  }

  #expect(token: string): void {
    if (!this.#take(token)) throw this.#unexpected();
  }

  #unexpected(): SyntaxError {
    const found = this.#text.slice(this.#at, this.#at + 12);
    return new SyntaxError(found === "" ? "JSON ends too early" : `unexpected ${JSON.stringify(found)} in JSON`);
  }
}
