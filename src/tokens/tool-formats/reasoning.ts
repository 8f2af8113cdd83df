import type { SampledTurn } from "./parse.ts";

/** Pairs of tokens that stand around reasoning: Qwen's and DeepSeek's, Mistral's. */
const PAIRS = [
  ["<think>", "</think>"],
  ["[THINK]", "[/THINK]"],
] as const;

/**
 * Splits a turn at its `</think>` token. A family without that token has no reasoning; one that opened a block and
 * was cut inside it has nothing but reasoning. Told by ids, so the marker written as ordinary text splits nothing.
 */
export async function splitReasoning(turn: SampledTurn): Promise<{ reasoning: string | null; rest: SampledTurn }> {
  for (const [openMarker, closeMarker] of PAIRS) {
    const open = turn.renderer.markerId(openMarker);
    const close = turn.renderer.markerId(closeMarker);
    if (open === null || close === null) continue;
    const closeAt = turn.ids.indexOf(close);
    const openAt = turn.ids.indexOf(open);
    if (closeAt < 0 && openAt < 0) continue;
    // Without an opening token before the close it was the prompt that opened the block.
    const isOpened = openAt >= 0 && (closeAt < 0 || openAt < closeAt);
    const end = closeAt < 0 ? turn.ids.length : closeAt;
    const thought = turn.ids.slice(isOpened ? openAt + 1 : 0, end);
    const ids = Int32Array.from([...turn.ids.slice(0, isOpened ? openAt : 0), ...turn.ids.slice(end + 1)]);
    const [reasoning, text] = await Promise.all([
      turn.renderer.decode(thought, false),
      turn.renderer.decode(ids, false),
    ]);
    return { reasoning: reasoning.trim(), rest: { ...turn, ids, text } };
  }
  return { reasoning: null, rest: turn };
}
