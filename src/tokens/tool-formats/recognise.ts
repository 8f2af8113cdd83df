import { RolloutError } from "../../errors.ts";
import type { Message, ToolSchema } from "../../trajectory/message.ts";
import type { Renderer } from "../renderer.ts";
import type { ToolFormat } from "./parse.ts";

const TOOL: ToolSchema = {
  name: "probe",
  description: "Looks.",
  parameters: { type: "object", properties: { a: { type: "string" } } },
};

const ROUND: readonly Message[] = [
  { role: "user", content: "a" },
  { role: "assistant", content: "", toolCalls: [{ id: "call_1", name: "probe", arguments: '{"a": "b"}' }] },
  { role: "tool", content: "c", toolCallId: "call_1", name: "probe" },
];

/** What a template writes for a call of `probe`, or around its answer; the first that is there tells. */
const SIGNS: readonly (readonly [RegExp, ToolFormat])[] = [
  [/<function=probe>/, "qwen3_coder"],
  [/to=functions\.probe/, "harmony"],
  [/<｜tool▁/, "deepseek"],
  [/\[TOOL_CALLS\]/, "mistral"],
  [/\{"name": "probe", "parameters":/, "llama3_json"],
];

/**
 * The form in which a model's chat template writes calls, which is how the model was taught to: found by rendering one.
 * `hermes` for templates that write none; those models are told its form in the system message.
 */
export async function recogniseToolFormat(renderer: Renderer): Promise<ToolFormat> {
  const shown = await attempt(renderer);
  return SIGNS.find(([sign]) => sign.test(shown))?.[1] ?? "hermes";
}

async function attempt(renderer: Renderer): Promise<string> {
  try {
    const { ids } = await renderer.renderPrompt(ROUND, [TOOL]);
    return await renderer.decode(ids, true);
  } catch (error) {
    if (error instanceof RolloutError && error.reason === "task_invalid") return "";
    throw error;
  }
}
