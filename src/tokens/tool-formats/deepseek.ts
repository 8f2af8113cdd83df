import { type ReadCall, readArguments, turnOfCalls } from "./calls.ts";
import { contentOf, type MarkedPart, splitAtMarkers } from "./marked-parts.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const CALL = "<｜tool▁call▁begin｜>";
const SEPARATOR = "<｜tool▁sep｜>";
const MARKERS = [CALL, SEPARATOR, "<｜tool▁call▁end｜>", "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"] as const;
const EXPECTED = "function<｜tool▁sep｜>NAME and a ```json block with the arguments";

/**
 * Calls of DeepSeek between its markers: V3 and R1 write `function`, a separator, the name and a block of JSON; V3.1
 * the name, a separator and the JSON. The last closing markers may be missing.
 */
export async function parseDeepseek(turn: SampledTurn, reasoning: string | null): Promise<ParsedTurn> {
  const parts = await splitAtMarkers(turn, MARKERS);
  const calls: ReadCall[] = [];
  const other: MarkedPart[] = [];
  for (const [index, part] of parts.entries()) {
    if (part.marker === CALL) {
      const next = parts[index + 1];
      calls.push(next?.marker === SEPARATOR ? readCall(part.text, next.text) : `has no separator; write ${EXPECTED}`);
    } else if (part.marker !== SEPARATOR) {
      other.push(part);
    }
  }
  return turnOfCalls(turn, calls, { content: contentOf(other), reasoning });
}

function readCall(before: string, after: string): ReadCall {
  const fenced = /^([^\n`]+)\n```(?:json)?\n([\s\S]*?)\n?```\s*$/.exec(after.trim());
  const isOldForm = before.trim() === "function" && !after.trim().startsWith("{");
  if (isOldForm && fenced === null) return `is no name with a closed block of JSON; write ${EXPECTED}`;
  const name = (fenced?.[1] ?? before).trim();
  if (name === "") return `has no name; write ${EXPECTED}`;
  const args = readArguments(fenced?.[2] ?? after, EXPECTED);
  return args.problem ?? { name, arguments: args.text };
}
