import type { Clock } from "../clock.ts";
import { RequestError } from "../errors.ts";
import type { Task } from "../job/task.ts";
import { createCodeHandler } from "./code/code-handler.ts";
import { commandHandler } from "./command/command-handler.ts";
import type { Handler } from "./handler.ts";
import { mathHandler } from "./math/math-handler.ts";
import { parseTask } from "./parse-task.ts";

/** The handlers this server knows, by name. */
export interface Registry {
  readonly handlers: readonly Handler[];
  /** Throws RequestError handler_unknown with the names that are known. */
  get(name: string): Handler;
  /** A row as a task that its handler accepts. Throws RequestError task_invalid | handler_unknown. */
  parse(raw: unknown): { task: Task; handler: Handler };
}

export function createRegistry(clock: Clock): Registry {
  const handlers = [mathHandler, createCodeHandler(clock), commandHandler];
  const get = (name: string): Handler => {
    const handler = handlers.find((candidate) => candidate.name === name);
    if (handler) return handler;
    const accepted = handlers.map((known) => known.name).join(", ");
    throw new RequestError("handler_unknown", `no handler is named ${JSON.stringify(name)}`, [
      { path: "handler", message: "is unknown", accepted },
    ]);
  };
  return {
    handlers,
    get,
    parse(raw) {
      const task = parseTask(raw);
      const handler = get(task.handler);
      handler.check(task);
      return { task, handler };
    },
  };
}
