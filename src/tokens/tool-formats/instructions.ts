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

/** What a call looks like, in the words that the families' own templates use. */
const SHAPES: Readonly<Record<Exclude<ToolFormat, "fenced" | "none">, readonly string[]>> = {
  hermes: [
    "For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:",
    "<tool_call>",
    '{"name": <function-name>, "arguments": <args-json-object>}',
    "</tool_call>",
  ],
  qwen3_coder: [
    "For each function call, reply in this form:",
    "<tool_call>",
    "<function=example_function_name>",
    "<parameter=example_parameter>",
    "value",
    "</parameter>",
    "</function>",
    "</tool_call>",
  ],
  llama3_json: [
    "To call a function, reply with nothing but JSON in this form:",
    '{"name": <function-name>, "parameters": <args-json-object>}',
  ],
  mistral: [
    "To call functions, reply with:",
    '[TOOL_CALLS][{"name": <function-name>, "arguments": <args-json-object>}]',
  ],
  deepseek: [
    "To call functions, reply with:",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>FUNCTION_NAME",
    "```json",
    "<args-json-object>",
    "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
  ],
  harmony: [
    "To call a function, write on the commentary channel to functions.<function-name>, with its JSON arguments.",
  ],
};

/** What a model must be told to call tools in this format; empty with `none` or without tools. */
export function toolInstructions(format: ToolFormat, tools: readonly ToolSchema[]): string {
  if (format === "none" || tools.length === 0) return "";
  if (format === "fenced") return fencedInstructions(tools);
  return [
    "You may call one or more functions to assist with the user query.",
    "",
    "You are provided with function signatures within <tools></tools> XML tags:",
    "<tools>",
    ...tools.map((tool) => JSON.stringify(templateTool(tool))),
    "</tools>",
    "",
    ...SHAPES[format],
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
