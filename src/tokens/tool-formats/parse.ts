import type { ToolCall, ToolSchema } from "../../trajectory/message.ts";
import type { Renderer } from "../renderer.ts";
import { parseDeepseek } from "./deepseek.ts";
import { parseFenced } from "./fenced.ts";
import { parseHarmony } from "./harmony.ts";
import { parseHermes } from "./hermes.ts";
import { parseLlama3Json } from "./llama3-json.ts";
import { parseMistral } from "./mistral.ts";
import { parseQwen3Coder } from "./qwen3-coder.ts";
import { splitReasoning } from "./reasoning.ts";

/**
 * How a model writes a tool call: `hermes` as JSON between `<tool_call>` markers, `qwen3_coder` as XML between them,
 * `llama3_json`, `mistral`, `deepseek` and `harmony` (gpt-oss) in those families' own forms, `fenced` as one block of
 * bash or python, `none` not at all.
 */
export const TOOL_FORMATS = [
  "hermes",
  "qwen3_coder",
  "llama3_json",
  "mistral",
  "deepseek",
  "harmony",
  "fenced",
  "none",
] as const;
export type ToolFormat = (typeof TOOL_FORMATS)[number];

/** What a turn says. `problem` is written for the model, which is told it and may try again. */
export type ParsedTurn =
  | { kind: "calls"; calls: ToolCall[]; content: string; reasoning: string | null }
  | { kind: "answer"; content: string; reasoning: string | null }
  | { kind: "malformed"; content: string; problem: string };

/** A sampled turn. `text` is `ids` decoded without special tokens. */
export interface SampledTurn {
  ids: Int32Array;
  text: string;
  renderer: Renderer;
  /** The number of the first call found here; calls are counted over the whole job. */
  nextCallNumber: number;
  /** The tools offered: where a format writes all values as text, their schemas say what is a number. */
  tools?: readonly ToolSchema[];
}

type Parser = (turn: SampledTurn, reasoning: string | null) => ParsedTurn | Promise<ParsedTurn>;

const PARSERS: Readonly<Record<Exclude<ToolFormat, "harmony">, Parser>> = {
  hermes: parseHermes,
  qwen3_coder: parseQwen3Coder,
  llama3_json: parseLlama3Json,
  mistral: parseMistral,
  deepseek: parseDeepseek,
  fenced: parseFenced,
  none: (turn, reasoning) => ({ kind: "answer", content: turn.text, reasoning }),
};

/** Reads a turn. Nothing that a model can write throws: what is no call and no answer is `malformed`. */
export async function parseTurn(format: ToolFormat, turn: SampledTurn): Promise<ParsedTurn> {
  // Its reasoning is a channel, and a turn without calls has channels all the same.
  if (format === "harmony" || (format === "none" && hasChannels(turn))) return parseHarmony(turn);
  const { reasoning, rest } = await splitReasoning(turn);
  return PARSERS[format](rest, reasoning);
}

function hasChannels({ ids, renderer }: SampledTurn): boolean {
  const channel = renderer.markerId("<|channel|>");
  const message = renderer.markerId("<|message|>");
  return channel !== null && message !== null && ids.includes(channel) && ids.includes(message);
}
