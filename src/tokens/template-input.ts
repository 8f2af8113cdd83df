import type { Message, ToolCall, ToolSchema } from "../trajectory/message.ts";
import { type Json, parseJson, toJson } from "./jinja/json.ts";

/** What a chat template expects of the messages it is given; found by trying (`findHabits`). */
export interface TemplateHabits {
  /** Arguments of a call: as an object, or as the JSON text that the model wrote. */
  argumentsAs: "object" | "text";
  /** Ids of calls: as they are, or of nine letters and digits (Mistral). */
  callIds: "any" | "nine";
  /** Whether it knows the role `tool`; where it does not, answers of tools are shown as a user's message. */
  knowsTools: boolean;
}

/** Messages as the template expects them. */
export function templateMessages(messages: readonly Message[], habits: TemplateHabits): Json {
  return (habits.knowsTools ? messages : withoutToolRole(messages)).map((message) => templateMessage(message, habits));
}

/** Tools as templates expect them, `null` for none as in Python. */
export function templateTools(tools: readonly ToolSchema[]): Json {
  if (tools.length === 0) return null;
  return tools.map((tool) =>
    members({
      type: "function",
      function: members({
        name: tool.name,
        description: tool.description,
        parameters: tool.parametersText === undefined ? toJson(tool.parameters) : parseJson(tool.parametersText),
      }),
    }),
  );
}

function templateMessage(message: Message, habits: TemplateHabits): Json {
  const calls = message.toolCalls ?? [];
  return members({
    // Both names, as transformers gives them: gpt-oss's template reads `thinking`, the others the second one.
    ...(message.reasoning ? { thinking: message.reasoning } : {}),
    role: message.role,
    content: message.content,
    ...(calls.length === 0 ? {} : { tool_calls: calls.map((call) => templateCall(call, habits)) }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: callId(message.toolCallId, habits) }),
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.reasoning ? { reasoning_content: message.reasoning } : {}),
  });
}

function templateCall(call: ToolCall, habits: TemplateHabits): Json {
  const args = habits.argumentsAs === "text" ? call.arguments : (readObject(call.arguments) ?? call.arguments);
  return members({
    id: callId(call.id, habits),
    type: "function",
    function: members({ name: call.name, arguments: args }),
  });
}

/** `call_12` becomes `call00012` where nine letters and digits are asked for. */
function callId(id: string, habits: TemplateHabits): string {
  if (habits.callIds === "any" || /^[A-Za-z0-9]{9}$/.test(id)) return id;
  const number = /(\d{1,5})$/.exec(id)?.[1] ?? "0";
  return `call${number.padStart(5, "0")}`;
}

/** Answers that follow one another, and a user's message after them, become one: such templates want roles in turn. */
function withoutToolRole(messages: readonly Message[]): Message[] {
  const shown: Message[] = [];
  let isOpen = false;
  for (const message of messages) {
    const last = shown.at(-1);
    const isAnswer = message.role === "tool";
    if (last !== undefined && isOpen && (isAnswer || message.role === "user")) {
      shown[shown.length - 1] = { ...last, content: `${last.content}\n${message.content}` };
    } else {
      shown.push(isAnswer ? { role: "user", content: message.content } : message);
    }
    isOpen = isAnswer;
  }
  return shown;
}

function members(object: Readonly<Record<string, Json>>): Json {
  return new Map(Object.entries(object));
}

function readObject(text: string): Json | null {
  try {
    const value = parseJson(text);
    return value instanceof Map ? value : null;
  } catch {
    return null;
  }
}
