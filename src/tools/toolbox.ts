import type { z } from "zod";
import { assert } from "../errors.ts";
import type { ToolSchema } from "../trajectory/message.ts";
import { bashTool } from "./bash.ts";
import { bashInteractiveTool } from "./bash-interactive.ts";
import { editTool, strReplaceEditorTool } from "./edit.ts";
import { finishTool } from "./finish.ts";
import { say } from "./observation.ts";
import { pythonTool } from "./python.ts";
import { thinkTool } from "./think.ts";
import type { Tool, ToolAnswer, ToolContext } from "./tool.ts";

const TOOLS: readonly Tool[] = [
  bashTool,
  bashInteractiveTool,
  pythonTool,
  editTool,
  strReplaceEditorTool,
  thinkTool,
  finishTool,
];

/** What is read of a tool's JSON Schema. */
interface Accepted {
  properties?: Record<string, { type?: string | string[]; enum?: readonly string[] }>;
  required?: readonly string[];
}

/** Names that a task may ask for. */
export const TOOL_NAMES: readonly string[] = TOOLS.map((tool) => tool.name);

/** Two names of `names` that the model would be shown as one; null when there are none. */
export function toolClash(names: readonly string[]): [string, string] | null {
  const shown = TOOLS.filter((tool) => names.includes(tool.name));
  const second = shown.find((tool, at) => shown.findIndex((each) => each.schema.name === tool.schema.name) < at);
  const first = shown.find((tool) => tool.schema.name === second?.schema.name);
  return first === undefined || second === undefined ? null : [first.name, second.name];
}

/** The tools of one job. */
export interface Toolbox {
  readonly schemas: readonly ToolSchema[];
  /** Whether any of them works in a sandbox. */
  readonly needsSandbox: boolean;
  /**
   * Runs one call. Whatever the model wrote is answered, never thrown; throws RolloutError (sandbox_lost,
   * sandbox_limit) when the sandbox is gone, and the signal's reason on abort.
   */
  call(name: string, argumentsJson: string, context: ToolContext): Promise<ToolAnswer>;
}

/** The tools of `names`, in that order; every name must be one of `TOOL_NAMES`, and no two may clash. */
export function createToolbox(names: readonly string[]): Toolbox {
  const tools = [...new Set(names)].map((name) => {
    const tool = TOOLS.find((each) => each.name === name);
    assert(tool !== undefined, `${name} is a tool`);
    return tool;
  });
  return {
    schemas: tools.map((tool) => tool.schema),
    needsSandbox: tools.some((tool) => tool.needsSandbox),
    async call(name, argumentsJson, context) {
      const tool = tools.find((each) => each.schema.name === name);
      if (tool === undefined) return say(`There is no tool ${quoted(name)}. ${listOf(tools)}`);
      if (tool.needsSandbox && context.sandbox === null)
        return say(`${name} cannot be used: this task has no sandbox.`);
      const parsed = parse(tool, argumentsJson);
      return "problem" in parsed ? say(parsed.problem) : tool.call(parsed.value, context);
    },
  };
}

function parse(tool: Tool, argumentsJson: string): { value: unknown } | { problem: string } {
  let json: unknown;
  try {
    json = argumentsJson.trim() === "" ? {} : JSON.parse(argumentsJson);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    return { problem: `The arguments of ${tool.schema.name} are not JSON (${why}). ${usage(tool)}` };
  }
  const checked = tool.arguments.safeParse(json);
  // The arguments as they were: the tool parses them itself.
  if (checked.success) return { value: json };
  return { problem: `The arguments of ${tool.schema.name} are wrong: ${faults(checked.error)}. ${usage(tool)}` };
}

function faults(error: z.ZodError): string {
  return error.issues.map((issue) => [...issue.path.map(String), issue.message].join(": ")).join("; ");
}

/** `command (view | create), path (string), file_text (string, optional)`. */
function usage(tool: Tool): string {
  const { properties = {}, required = [] } = tool.schema.parameters as Accepted;
  const taken = Object.entries(properties).map(([name, { type, enum: values }]) => {
    const kind =
      values === undefined ? [type].flat().join(" or ") : values.map((value) => JSON.stringify(value)).join(" | ");
    return `${name} (${kind}${required.includes(name) ? "" : ", optional"})`;
  });
  return `It takes ${taken.join(", ")}.`;
}

function listOf(tools: readonly Tool[]): string {
  return tools.length === 0
    ? "This task has no tools."
    : `There are ${tools.map((tool) => tool.schema.name).join(", ")}.`;
}

function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}
