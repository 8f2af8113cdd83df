import { KNOWN_MARKERS } from "../../tokens/template-source.ts";

/** Ids 0-255 are bytes of UTF-8; these follow, and then the markers that parsers look for. */
const NAMES = ["<|message|>", "<|content|>", "<|tools|>", "<|turn|>", "<|end|>"] as const;
const FIRST = 256;

/** Ids that stand for no text: where a message, its content, the tools and a sampled turn begin, and where each ends. */
export const CHAT_IDS = {
  message: FIRST,
  content: FIRST + 1,
  tools: FIRST + 2,
  turn: FIRST + 3,
  end: FIRST + 4,
} as const;

/** A text as ids; what is written like a marker stays text. */
export function encodeText(text: string): number[] {
  return [...Buffer.from(text.toWellFormed())];
}

/** Text of ids. Markers such as `<tool_call>` are shown, ids that stand for no text only with `keepSpecial`. */
export function decodeText(ids: readonly number[], keepSpecial: boolean): string {
  const parts = ids.map((id) => {
    if (id < FIRST) return Buffer.from([id]);
    const name = NAMES[id - FIRST];
    return Buffer.from(name === undefined ? (KNOWN_MARKERS[id - FIRST - NAMES.length] ?? "") : keepSpecial ? name : "");
  });
  return Buffer.concat(parts).toString("utf8");
}

/** The id of a marker; null where there is none of that name. */
export function markerIdOf(marker: string): number | null {
  const at = (KNOWN_MARKERS as readonly string[]).indexOf(marker);
  return at < 0 ? null : FIRST + NAMES.length + at;
}
