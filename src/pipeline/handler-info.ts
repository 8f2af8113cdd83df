import { z } from "zod";
import { Task } from "../job/task.ts";
import type { Registry } from "../tasks/registry.ts";
import type { HandlerInfo } from "./rollouts.ts";

/** JSON Schema of a task as it is sent. What a handler asks for beyond it is in its documentation. */
export function taskSchema(): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(Task, { io: "input" });
  return schema;
}

/** The handlers as they are shown to whoever submits. */
export function describeHandlers(registry: Registry): HandlerInfo[] {
  const schema = taskSchema();
  return registry.handlers.map((handler) => ({
    name: handler.name,
    source: handler.source,
    tools: handler.tools,
    toolFormat: handler.toolFormat,
    carry: [...(handler.carry.answer ? ["answer"] : []), ...handler.carry.artifacts],
    taskSchema: schema,
  }));
}
