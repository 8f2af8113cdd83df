import { type ReadCall, readJsonCall, turnOfCalls } from "./calls.ts";
import { valueEnd } from "./json-member.ts";
import { contentOf, splitAtMarkers } from "./marked-parts.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const PYTHON_TAG = "<|python_tag|>";
const EXPECTED = `{"name": "...", "parameters": {...}}`;

/**
 * Calls of Llama 3: the turn is a JSON object with `name` and `parameters`, several with `;` or space between, after
 * `<|python_tag|>` or alone. A turn that begins otherwise is an answer, whatever JSON it shows; so is other JSON.
 */
export async function parseLlama3Json(turn: SampledTurn, reasoning: string | null): Promise<ParsedTurn> {
  const parts = await splitAtMarkers(turn, [PYTHON_TAG]);
  const tagged = parts.filter((part) => part.marker === PYTHON_TAG);
  const before = contentOf(parts.filter((part) => part.marker === null));
  if (tagged.length > 0) {
    const calls = tagged.flatMap((part) => readSequence(part.text.trim()) ?? [`is no call; write ${EXPECTED}`]);
    return turnOfCalls(turn, calls, { content: before, reasoning });
  }
  const calls = readSequence(before);
  return calls === null
    ? { kind: "answer", content: before, reasoning }
    : turnOfCalls(turn, calls, { content: "", reasoning });
}

/** The calls of a text that is nothing else; null for a text that does not begin like one. */
function readSequence(text: string): ReadCall[] | null {
  if (!/^\{\s*"(name|type|parameters|arguments|function)"\s*:/.test(text) || isOtherJson(text)) return null;
  const calls: ReadCall[] = [];
  let at = 0;
  while (at < text.length) {
    const end = valueEnd(text, at);
    calls.push(readOne(text.slice(at, end ?? text.length)));
    if (end === null) break;
    at = end;
    while (at < text.length && /[\s;,]/.test(text[at] ?? "")) at += 1;
  }
  return calls;
}

function readOne(text: string): ReadCall {
  if (!text.startsWith("{")) return `has text after it; write ${EXPECTED}`;
  return readJsonCall(text, ["parameters", "arguments"], EXPECTED);
}

/** JSON that happens to have a member `name` or `type` but no arguments is an answer. */
function isOtherJson(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null || typeof Reflect.get(value, "name") !== "string") return true;
    return !("parameters" in value) && !("arguments" in value);
  } catch {
    return false;
  }
}
