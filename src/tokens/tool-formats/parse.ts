import type { ToolCall } from "../../trajectory/message.ts";
import type { Renderer } from "../renderer.ts";
import { parseFenced } from "./fenced.ts";
import { parseHermes } from "./hermes.ts";
import { splitReasoning } from "./reasoning.ts";

/**
 * How a model writes a tool call: `hermes` as JSON between `<tool_call>` markers, `fenced` as one block of bash or
 * python, `none` not at all.
 */
export const TOOL_FORMATS = ["hermes", "fenced", "none"] as const;
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
}

/** Reads a turn. Nothing that a model can write throws: what is no call and no answer is `malformed`. */
export async function parseTurn(format: ToolFormat, turn: SampledTurn): Promise<ParsedTurn> {
  const { reasoning, rest } = await splitReasoning(turn);
  if (format === "hermes") return parseHermes(rest, reasoning);
  if (format === "fenced") return parseFenced(rest, reasoning);
  return { kind: "answer", content: rest.text, reasoning };
}
