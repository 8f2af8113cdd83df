import type { SampledTurn } from "./parse.ts";

/**
 * Splits a turn at its `</think>` token. A family without that token has no reasoning; one that opened a block and
 * was cut inside it has nothing but reasoning. Told by ids, so the marker written as ordinary text splits nothing.
 */
export async function splitReasoning(turn: SampledTurn): Promise<{ reasoning: string | null; rest: SampledTurn }> {
  const open = turn.renderer.markerId("<think>");
  const close = turn.renderer.markerId("</think>");
  if (open === null || close === null) return { reasoning: null, rest: turn };
  const closeAt = turn.ids.indexOf(close);
  if (closeAt < 0 && turn.ids[0] !== open) return { reasoning: null, rest: turn };
  const end = closeAt < 0 ? turn.ids.length : closeAt;
  const thought = turn.ids.slice(turn.ids[0] === open ? 1 : 0, end);
  const ids = turn.ids.slice(end + 1);
  const [reasoning, text] = await Promise.all([turn.renderer.decode(thought, false), turn.renderer.decode(ids, false)]);
  return { reasoning: reasoning.trim(), rest: { ...turn, ids, text } };
}
