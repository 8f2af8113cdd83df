import { type ReadCall, readArguments, readJsonCall, turnOfCalls } from "./calls.ts";
import { elementTexts, valueEnd } from "./json-member.ts";
import { contentOf, type MarkedPart, splitAtMarkers } from "./marked-parts.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const CALLS = "[TOOL_CALLS]";
const ID = "[CALL_ID]";
const ARGUMENTS = "[ARGS]";
const EXPECTED = `[{"name": "...", "arguments": {...}}]`;
const EXPECTED_NAMED = `${CALLS}NAME${ARGUMENTS}{...}`;

/**
 * Calls of Mistral after `[TOOL_CALLS]`: a JSON list of objects with `name`, `arguments` and an `id` of nine letters
 * and digits, which is kept; or of newer models `NAME[CALL_ID]id[ARGS]{...}`, the marker before each.
 */
export async function parseMistral(turn: SampledTurn, reasoning: string | null): Promise<ParsedTurn> {
  const parts = await splitAtMarkers(turn, [CALLS, ID, ARGUMENTS]);
  const first = parts.findIndex((part) => part.marker === CALLS);
  const content = contentOf(first < 0 ? parts : parts.slice(0, first));
  const groups: MarkedPart[][] = [];
  for (const part of first < 0 ? [] : parts.slice(first)) {
    if (part.marker === CALLS) groups.push([part]);
    else groups.at(-1)?.push(part);
  }
  return turnOfCalls(turn, groups.flatMap(readGroup), { content, reasoning });
}

function readGroup(parts: readonly MarkedPart[]): ReadCall[] {
  const [head, ...rest] = parts;
  const text = head?.text.trim() ?? "";
  const args = rest.find((part) => part.marker === ARGUMENTS);
  const id = rest.find((part) => part.marker === ID)?.text.trim();
  if (args !== undefined) return [named(text, args.text, id)];
  if (text.startsWith("[")) return readList(text);
  const object = text.indexOf("{");
  if (text.startsWith("{")) return [readObject(text)];
  if (object > 0) return [named(text.slice(0, object).trim(), text.slice(object), id)];
  return [`is no call; write ${EXPECTED}`];
}

function readList(text: string): ReadCall[] {
  const end = valueEnd(text, 0);
  if (end === null) return [`is not JSON (it is cut or not closed); write ${EXPECTED}`];
  if (text.slice(end).trim() !== "") return [`has text after it; write ${EXPECTED}`];
  const elements = elementTexts(text);
  if (elements === null) return [`is not JSON; write ${EXPECTED}`];
  return elements.length === 0 ? [`is an empty list; write ${EXPECTED}`] : elements.map(readObject);
}

function readObject(text: string): ReadCall {
  const read = readJsonCall(text, ["arguments"], EXPECTED);
  if (typeof read === "string") return read;
  const value: unknown = JSON.parse(text);
  const id: unknown = typeof value === "object" && value !== null ? Reflect.get(value, "id") : null;
  return typeof id === "string" ? withId(read, id) : read;
}

function named(name: string, text: string, id: string | undefined): ReadCall {
  if (name === "" || /\s/.test(name)) return `has no name; write ${EXPECTED_NAMED}`;
  const args = readArguments(text, EXPECTED_NAMED);
  if (args.problem !== null) return args.problem;
  return withId({ name, arguments: args.text }, id ?? "");
}

function withId(read: { name: string; arguments: string }, id: string): ReadCall {
  return /^[A-Za-z0-9]{9}$/.test(id) ? { ...read, id } : read;
}
