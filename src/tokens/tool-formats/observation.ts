import type { Message } from "../../trajectory/message.ts";
import type { ToolFormat } from "./parse.ts";

/** What a tool answered, as the model is to see it. */
export interface Observation {
  callId: string;
  tool: string;
  output: string;
}

/**
 * The messages that bring observations back: with `fenced` one `user` message, since its models know
 * no tool role; one `tool` message each with all others. `none` has no calls and so no observations.
 */
export function formatObservation(format: ToolFormat, observations: readonly Observation[]): Message[] {
  if (format === "none" || observations.length === 0) return [];
  if (format === "fenced") return [{ role: "user", content: observations.map(({ output }) => output).join("\n") }];
  return observations.map(({ callId, tool, output }) => ({
    role: "tool",
    content: output,
    toolCallId: callId,
    name: tool,
  }));
}

/** The message that tells a model what was wrong with its turn. */
export function formatProblem(problem: string): Message {
  return { role: "user", content: `Your last message could not be read: ${problem}.` };
}
