import type { Message, ToolSchema } from "../../trajectory/message.ts";
import type { Renderer } from "../renderer.ts";
import { templateTool } from "../template-source.ts";
import type { ToolFormat } from "./parse.ts";

const PROBE: readonly Message[] = [{ role: "user", content: "a" }];

/** Whether the model's chat template shows tools; where it does not, `toolInstructions` goes into the system message. */
export async function templateShowsTools(renderer: Renderer, tools: readonly ToolSchema[]): Promise<boolean> {
  const [without, shown] = await Promise.all([renderer.renderPrompt(PROBE, []), renderer.renderPrompt(PROBE, tools)]);
  return without.ids.length !== shown.ids.length || without.ids.some((id, index) => id !== shown.ids[index]);
}

/** What a model must be told to call tools in this format; empty with `none` or without tools. */
export function toolInstructions(format: ToolFormat, tools: readonly ToolSchema[]): string {
  if (format === "none" || tools.length === 0) return "";
  return format === "hermes" ? hermesInstructions(tools) : fencedInstructions(tools);
}

function hermesInstructions(tools: readonly ToolSchema[]): string {
  return [
    "You may call one or more functions to assist with the user query.",
    "",
    "You are provided with function signatures within <tools></tools> XML tags:",
    "<tools>",
    ...tools.map((tool) => JSON.stringify(templateTool(tool))),
    "</tools>",
    "",
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:",
    "<tool_call>",
    '{"name": <function-name>, "arguments": <args-json-object>}',
    "</tool_call>",
  ].join("\n");
}

function fencedInstructions(tools: readonly ToolSchema[]): string {
  const usable = tools.filter((tool) => tool.name === "bash" || tool.name === "python");
  if (usable.length === 0) return "";
  const names = usable.map((tool) => `\`\`\`${tool.name}`).join(" or ");
  return [
    `To run code, write exactly one ${names} block; you are then shown its output.`,
    "A reply without such a block is your final answer.",
  ].join("\n");
}
