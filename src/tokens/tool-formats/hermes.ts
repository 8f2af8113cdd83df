import { readJsonCall, turnOfCalls } from "./calls.ts";
import { contentOf, splitAtMarkers } from "./marked-parts.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const EXPECTED = `{"name": "...", "arguments": {...}}`;

/**
 * Calls as `<tool_call>{"name", "arguments"}</tool_call>`, any number of them; the last close may be missing. Where
 * the tokenizer has the markers as tokens only those count: a marker spelled out in ordinary text is text.
 */
export async function parseHermes(turn: SampledTurn, reasoning: string | null): Promise<ParsedTurn> {
  const parts = await splitAtMarkers(turn, [OPEN, CLOSE]);
  const written = parts.filter((part) => part.marker === OPEN);
  const content = contentOf(parts.filter((part) => part.marker !== OPEN));
  const calls = written.map(({ text }) => readJsonCall(text, ["arguments"], EXPECTED));
  return turnOfCalls(turn, calls, { content, reasoning });
}
