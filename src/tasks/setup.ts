import type { Task } from "../job/task.ts";
import type { Message } from "../trajectory/message.ts";
import type { AgentSetup } from "./handler.ts";

/** Tools that do their work outside any sandbox. */
const SANDBOX_FREE: ReadonlySet<string> = new Set(["think", "finish"]);

export interface HandlerDefaults {
  system: string | null;
  tools: readonly string[];
}

/**
 * Messages, tools and format of a task's agent. A task's own `messages` are taken as they are; the handler's system prompt
 * goes before a bare `prompt` only. `auto` stays where there are tools, for the model's chat template to tell, and is `none` where the only turn is the answer.
 */
export function setupAgent(task: Task, defaults: HandlerDefaults): AgentSetup {
  const own = (task.messages ?? []).map(toMessage);
  if (task.prompt !== undefined) own.push({ role: "user", content: task.prompt });
  const messages: Message[] =
    defaults.system === null || task.messages !== undefined
      ? own
      : [{ role: "system", content: defaults.system }, ...own];
  const wanted = task.tools ?? (task.tool_format === "none" ? [] : defaults.tools);
  const toolFormat = task.tool_format !== "auto" ? task.tool_format : wanted.length > 0 ? "auto" : "none";
  const tools = toolFormat === "none" ? [] : wanted;
  const needsSandbox = tools.some((tool) => !SANDBOX_FREE.has(tool));
  return { messages, tools, toolFormat, needsSandbox };
}

function toMessage(wire: NonNullable<Task["messages"]>[number]): Message {
  return {
    role: wire.role,
    content: wire.content,
    ...(wire.tool_calls ? { toolCalls: wire.tool_calls } : {}),
    ...(wire.tool_call_id === undefined ? {} : { toolCallId: wire.tool_call_id }),
    ...(wire.name === undefined ? {} : { name: wire.name }),
    ...(wire.reasoning === undefined ? {} : { reasoning: wire.reasoning }),
  };
}
