import { z } from "zod";
import { Task } from "../job/task.ts";

/**
 * JSON Schema of a task as it is sent. Made from the schema that the pipeline checks with; what a handler asks for
 * beyond it is in its documentation.
 */
export function taskSchema(): Record<string, unknown> {
  const { $schema: _, ...schema } = z.toJSONSchema(Task, { io: "input" });
  return schema;
}
