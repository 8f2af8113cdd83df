import type { Message, ToolSchema } from "../../../src/trajectory/message.ts";
import type { Family } from "./families.ts";

/** The messages as a user of transformers gives them to this family's template: JSON, with arguments as written. */
export function referenceMessages(messages: readonly Message[], family: Family): string {
  const shown = family.toolsAsUser ? joinAnswers(messages) : messages;
  return `[${shown.map((message) => referenceMessage(message, family)).join(",")}]`;
}

/** Tools in the form that transformers takes, schemas as written. */
export function referenceTools(tools: readonly ToolSchema[]): string {
  const shown = tools.map(
    ({ name, description, parametersText }) =>
      `{"type":"function","function":{"name":${JSON.stringify(name)},"description":${JSON.stringify(description)},"parameters":${parametersText ?? "{}"}}}`,
  );
  return `[${shown.join(",")}]`;
}

function referenceMessage(message: Message, family: Family): string {
  const calls = (message.toolCalls ?? []).map((call) => {
    const args = family.argumentsAs === "text" ? JSON.stringify(call.arguments) : call.arguments;
    return `{"id":"${callId(call.id, family)}","type":"function","function":{"name":"${call.name}","arguments":${args}}}`;
  });
  const members = [
    `"role":"${message.role}"`,
    `"content":${JSON.stringify(message.content)}`,
    ...(calls.length === 0 ? [] : [`"tool_calls":[${calls.join(",")}]`]),
    ...(message.toolCallId === undefined ? [] : [`"tool_call_id":"${callId(message.toolCallId, family)}"`]),
    ...(message.name === undefined ? [] : [`"name":"${message.name}"`]),
    ...(message.reasoning ? [`"reasoning_content":${JSON.stringify(message.reasoning)}`] : []),
  ];
  return `{${members.join(",")}}`;
}

function callId(id: string, family: Family): string {
  return family.callIds === "nine" ? `call${id.slice("call_".length).padStart(5, "0")}` : id;
}

function joinAnswers(messages: readonly Message[]): Message[] {
  const joined: Message[] = [];
  let answers: string[] = [];
  for (const message of [...messages, null]) {
    if (message?.role === "tool") answers.push(message.content);
    else if (message?.role === "user" && answers.length > 0) {
      joined.push({ role: "user", content: [...answers, message.content].join("\n") });
      answers = [];
    } else {
      if (answers.length > 0) joined.push({ role: "user", content: answers.join("\n") });
      answers = [];
      if (message !== null) joined.push(message);
    }
  }
  return joined;
}
