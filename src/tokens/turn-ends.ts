import type { Message } from "../trajectory/message.ts";
import { sentinelOf } from "./attribution.ts";

/** Tokens that close an assistant's turn. */
export interface TurnEnds {
  /** Ids at which a model ends its turn by its own decision; sampling stops there. */
  endIds: readonly number[];
  /** What the template puts behind an earlier turn that is text, and behind one that ends in calls. */
  closers: { text: number; calls: number };
}

export interface TurnEndSources {
  addedTokens: ReadonlyMap<string, number>;
  /** Of the tokenizer's config and of generation_config.json. */
  configured: readonly number[];
  template: string;
  /** Null where the template refuses the messages. */
  render: (messages: readonly Message[]) => string | null;
}

const PROBE = sentinelOf(3_000_000);
/** A family that ends messages within a turn (gpt-oss): `<|end|>` closes one, these two the turn. */
const HARMONY = ["<|channel|>", "<|return|>", "<|call|>"] as const;
/** A second end of turn that templates name, but no config does: Llama's, for a turn that waits for a tool. */
const FURTHER_ENDS = ["<|eom_id|>"] as const;

/** Null when neither the template nor a config names an end. */
export function findTurnEnds(sources: TurnEndSources): TurnEnds | null {
  const { addedTokens, configured, template } = sources;
  const harmony = HARMONY.map((token) => addedTokens.get(token));
  const isHarmony = harmony.every((id) => id !== undefined) && template.includes("<|channel|>");
  const shown = afterProbe(sources, [
    { role: "assistant", content: PROBE },
    { role: "user", content: "b" },
  ]);
  const textEnd = firstToken(shown ?? "", addedTokens, () => true);
  const further = FURTHER_ENDS.filter((token) => template.includes(token)).map((token) => addedTokens.get(token));
  const own = isHarmony ? harmony.slice(1) : [textEnd];
  const endIds = [...new Set([...own, ...configured, ...further])].filter((id) => id !== undefined);
  const [first] = endIds;
  if (first === undefined) return null;
  const calls = [{ id: "call_1", name: "probe", arguments: JSON.stringify({ a: PROBE }) }];
  const called = afterProbe(sources, [
    { role: "assistant", content: "", toolCalls: calls },
    { role: "tool", content: "b", toolCallId: "call_1", name: "probe" },
  ]);
  const callsEnd = firstToken(called ?? "", addedTokens, (id) => endIds.includes(id));
  return { endIds, closers: { text: textEnd ?? first, calls: callsEnd ?? textEnd ?? first } };
}

function afterProbe(sources: TurnEndSources, messages: readonly Message[]): string | null {
  const shown = sources.render([{ role: "user", content: "a" }, ...messages]);
  const at = shown?.lastIndexOf(PROBE) ?? -1;
  return shown === null || at < 0 ? null : shown.slice(at + PROBE.length);
}

function firstToken(
  text: string,
  addedTokens: ReadonlyMap<string, number>,
  isWanted: (id: number) => boolean,
): number | undefined {
  let best: { at: number; id: number } | undefined;
  for (const [token, id] of addedTokens) {
    if (token.trim() === "" || !isWanted(id)) continue;
    const at = text.indexOf(token);
    if (at >= 0 && (best === undefined || at < best.at)) best = { at, id };
  }
  return best?.id;
}
