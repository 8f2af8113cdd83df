import type { ToolSchema } from "../../trajectory/message.ts";
import { type ReadCall, turnOfCalls } from "./calls.ts";
import { contentOf, splitAtMarkers } from "./marked-parts.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const EXPECTED = "<function=NAME><parameter=KEY>VALUE</parameter></function>";

/**
 * Calls of Qwen3-Coder and Qwen3.5: `<function=name>` with `<parameter=key>` blocks between `<tool_call>` markers.
 * A value is text: the tool's schema says which become numbers, truth values, lists and objects.
 */
export async function parseQwen3Coder(turn: SampledTurn, reasoning: string | null): Promise<ParsedTurn> {
  const parts = await splitAtMarkers(turn, [OPEN, CLOSE]);
  const content = contentOf(parts.filter((part) => part.marker !== OPEN));
  const written = parts.filter((part) => part.marker === OPEN);
  const calls = written.map(({ text }) => readFunction(text.trim(), turn.tools ?? []));
  return turnOfCalls(turn, calls, { content, reasoning });
}

function readFunction(text: string, tools: readonly ToolSchema[]): ReadCall {
  const head = /^<function=([^>\n]+)>/.exec(text);
  const name = head?.[1]?.trim() ?? "";
  if (head === null || name === "") return `has no function; write ${EXPECTED}`;
  if (!text.endsWith("</function>")) return `is not closed; write ${EXPECTED}`;
  const body = text.slice(head[0].length, -"</function>".length);
  const properties: unknown = tools.find((tool) => tool.name === name)?.parameters.properties;
  const members = new Map<string, string>();
  let rest = body.trimStart();
  while (rest !== "") {
    const open = /^<parameter=([^>\n]+)>/.exec(rest);
    const key = open?.[1]?.trim() ?? "";
    if (open === null || key === "") return `has text outside its parameters; write ${EXPECTED}`;
    const end = valueEnd(rest, open[0].length);
    if (end === null) return `does not close its parameter ${key}; write ${EXPECTED}`;
    const value = rest
      .slice(open[0].length, end)
      .replace(/^\r?\n/, "")
      .replace(/\r?\n$/, "");
    members.set(key, jsonValue(value, schemaOf(properties, key)));
    rest = rest.slice(end + "</parameter>".length).trimStart();
  }
  const shown = Array.from(members, ([key, value]) => `${JSON.stringify(key)}: ${value}`);
  return { name, arguments: `{${shown.join(", ")}}` };
}

/** Where the value ends: at the first close that another parameter or the end follows, so that one in a text is text. */
function valueEnd(text: string, from: number): number | null {
  const close = /<\/parameter>(?=\s*(?:<parameter=|$))/g;
  close.lastIndex = from;
  return close.exec(text)?.index ?? null;
}

function schemaOf(properties: unknown, key: string): unknown {
  return typeof properties === "object" && properties !== null ? Reflect.get(properties, key) : undefined;
}

/** The value as JSON. Numbers and nested values keep their text; what does not fit its type stays a text. */
function jsonValue(value: string, schema: unknown): string {
  const types = typesOf(schema);
  const bare = value.trim();
  if (types.includes("boolean") && /^(true|false)$/i.test(bare)) return bare.toLowerCase();
  if (types.includes("null") && /^(null|none)$/i.test(bare)) return "null";
  if (types.every((type) => type === "string" || type === "null")) return JSON.stringify(value);
  const parsed = parsedType(bare);
  const fits = parsed !== null && (types.includes(parsed) || (parsed === "integer" && types.includes("number")));
  return fits ? bare : JSON.stringify(value);
}

/** Types that a schema allows, those of its unions with them. */
function typesOf(schema: unknown): string[] {
  if (typeof schema !== "object" || schema === null) return [];
  const own: unknown = Reflect.get(schema, "type");
  const named = [own].flat().filter((type) => typeof type === "string");
  const unions: unknown[] = [Reflect.get(schema, "anyOf"), Reflect.get(schema, "oneOf")].flat();
  return [...named, ...unions.filter((union) => union !== undefined).flatMap(typesOf)];
}

function parsedType(text: string): string | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return /^-?\d+$/.test(text) ? "integer" : "number";
  return typeof value;
}
