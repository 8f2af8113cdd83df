import type { Renderer } from "../tokens/renderer.ts";
import { templateShowsTools, toolInstructions } from "../tokens/tool-formats/instructions.ts";
import type { ToolFormat } from "../tokens/tool-formats/parse.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";

/**
 * The task's messages, with what the model must be told to call tools when nothing else tells it: when its chat
 * template leaves tools out, for `fenced` when the task has no system message of its own.
 */
export async function promptMessages(
  messages: readonly Message[],
  format: ToolFormat,
  tools: readonly ToolSchema[],
  renderer: Renderer,
): Promise<readonly Message[]> {
  const [first, ...rest] = messages;
  const system = first?.role === "system" ? first : null;
  const isTold = isFree(format) ? system !== null : await templateShowsTools(renderer, tools);
  const instructions = isTold ? "" : toolInstructions(format, tools);
  if (instructions === "") return messages;
  if (system === null) return [{ role: "system", content: instructions }, ...messages];
  return [{ ...system, content: `${system.content}\n\n${instructions}` }, ...rest];
}

/** Formats that no chat template has words for. */
function isFree(format: ToolFormat): boolean {
  return format === "fenced" || format === "none";
}
