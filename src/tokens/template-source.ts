import type { Message, ToolSchema } from "../trajectory/message.ts";

/** Ids of a text, and how many of the text's UTF-8 bytes each stands for; null where that cannot be told. */
export interface Encoded {
  ids: readonly number[];
  byteLengths: readonly number[] | null;
}

/**
 * What a renderer is made from: a chat template and a tokenizer, here or behind a server. Methods throw
 * RolloutError: `task_invalid` when the template refuses the messages, `backend_*` when a server fails.
 */
export interface TemplateSource {
  readonly kind: "local" | "remote";
  readonly tokenizerHash: string;
  readonly templateHash: string;
  /** End-of-turn token first. */
  readonly endIds: readonly number[];
  /** What closes an earlier turn of text, and one that ends in calls; the first end id where this is absent. */
  readonly closers?: { text: number; calls: number };
  /** The conversation as text with the generation prompt; the last message is never an assistant's. */
  render(messages: readonly Message[], tools: readonly ToolSchema[]): Promise<string>;
  /** Special tokens in the text become their ids; none are added. */
  encode(text: string): Promise<Encoded>;
  decode(ids: readonly number[], keepSpecial: boolean): Promise<string>;
  markerId(marker: string): number | null;
}

/** Markers that parsers look for; a remote tokenizer is asked about these when it is opened. */
export const KNOWN_MARKERS = [
  "<tool_call>",
  "</tool_call>",
  "<think>",
  "</think>",
  "[TOOL_CALLS]",
  "[CALL_ID]",
  "[ARGS]",
  "[THINK]",
  "[/THINK]",
  "<|python_tag|>",
  "<｜tool▁calls▁begin｜>",
  "<｜tool▁calls▁end｜>",
  "<｜tool▁call▁begin｜>",
  "<｜tool▁call▁end｜>",
  "<｜tool▁sep｜>",
  "<|channel|>",
  "<|message|>",
  "<|constrain|>",
  "<|call|>",
  "<|return|>",
  "<|start|>",
  "<|end|>",
] as const;

/** A message as the OpenAI API has it on the wire: arguments as text; the server makes the template's form of it. */
export function wireMessage(message: Message): Record<string, unknown> {
  const calls = (message.toolCalls ?? []).map((call) => ({
    id: call.id,
    type: "function",
    function: { name: call.name, arguments: call.arguments },
  }));
  return {
    role: message.role,
    content: message.content,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.reasoning ? { reasoning_content: message.reasoning } : {}),
  };
}

/** A tool as servers and instructions are given it. */
export function templateTool(tool: ToolSchema): Record<string, unknown> {
  return {
    type: "function",
    function: { name: tool.name, description: tool.description, parameters: tool.parameters },
  };
}
