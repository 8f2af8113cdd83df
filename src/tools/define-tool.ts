import { z } from "zod";
import type { Tool, ToolAnswer, ToolContext } from "./tool.ts";

/** A tool as it is written: the arguments' schema is both what the model is shown and what its calls must pass. */
export interface ToolDefinition<A extends z.ZodType> {
  name: string;
  /** What the model is shown it as; `name` when absent. */
  shownAs?: string;
  description: string;
  arguments: A;
  needsSandbox: boolean;
  call(args: z.infer<A>, context: ToolContext): Promise<ToolAnswer>;
}

/** Makes a tool of its definition. */
export function defineTool<A extends z.ZodType>(definition: ToolDefinition<A>): Tool {
  const { $schema: _, ...parameters } = z.toJSONSchema(definition.arguments, { io: "input" });
  return {
    name: definition.name,
    schema: { name: definition.shownAs ?? definition.name, description: definition.description, parameters },
    needsSandbox: definition.needsSandbox,
    arguments: definition.arguments,
    call: (parsed, context) => definition.call(definition.arguments.parse(parsed), context),
  };
}
