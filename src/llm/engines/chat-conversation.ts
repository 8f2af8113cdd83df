import { z } from "zod";
import { memberText } from "../../tokens/tool-formats/json-member.ts";
import { invalid } from "../fault.ts";
import { CHAT_IDS, decodeText, encodeText, markerIdOf } from "./chat-ids.ts";

/** A conversation as the chat API takes it. */
export interface Conversation {
  messages: Record<string, unknown>[];
  tools: unknown[];
}

const WireCall = z.looseObject({ function: z.looseObject({ name: z.string(), arguments: z.string() }) });
export type WireCall = z.infer<typeof WireCall>;

/** What the server's assistant said. */
export const AssistantMessage = z.looseObject({
  content: z.string().nullish(),
  tool_calls: z.array(WireCall).nullish(),
  reasoning: z.string().nullish(),
  /** The older name of the same. */
  reasoning_content: z.string().nullish(),
});
export type AssistantMessage = z.infer<typeof AssistantMessage>;

const [CALL, CALL_END, THINK, THINK_END] = ["<tool_call>", "</tool_call>", "<think>", "</think>"].map(
  (marker) => markerIdOf(marker) ?? -1,
) as [number, number, number, number];

/** The messages that a prompt of `createChatRenderer` was made of, sampled turns included. */
export function readConversation(ids: readonly number[]): Conversation {
  const found: Conversation = { messages: [], tools: [] };
  let at = 0;
  while (at < ids.length) {
    const kind = ids[at];
    const end = ids.indexOf(CHAT_IDS.end, at);
    const inner = ids.slice(at + 1, end < 0 ? ids.length : end);
    if (kind === CHAT_IDS.tools) found.tools = JSON.parse(decodeText(inner, false)) as unknown[];
    else if (kind === CHAT_IDS.message) found.messages.push(readMessage(inner));
    else if (kind !== CHAT_IDS.turn) throw invalid("chat", `id ${kind} where a message was to begin`);
    else if (end >= 0) found.messages.push(readTurn(inner));
    at = end < 0 ? ids.length : end + 1;
  }
  nameCalls(found.messages);
  return found;
}

function readMessage(ids: readonly number[]): Record<string, unknown> {
  const split = ids.indexOf(CHAT_IDS.content);
  const rest = JSON.parse(decodeText(ids.slice(0, split), false)) as Record<string, unknown>;
  const { reasoning_content: _, ...message } = rest;
  return { ...message, content: decodeText(ids.slice(split + 1), false) };
}

/** A sampled turn as the server gave it. Reasoning stays out, as its APIs want it. */
function readTurn(ids: readonly number[]): Record<string, unknown> {
  const thought = ids[0] === THINK ? ids.indexOf(THINK_END) : -1;
  const said = ids.slice(thought + 1);
  const tool_calls: Record<string, unknown>[] = [];
  const text: number[] = [];
  for (let at = 0; at < said.length; at += 1) {
    const end = said[at] === CALL ? said.indexOf(CALL_END, at) : -1;
    if (end < 0) {
      text.push(said[at] ?? 0);
      continue;
    }
    tool_calls.push({ type: "function", function: readCall(decodeText(said.slice(at + 1, end), false)) });
    at = end;
  }
  const content = decodeText(text, false);
  return { role: "assistant", content, ...(tool_calls.length === 0 ? {} : { tool_calls }) };
}

/** The arguments as the server wrote them: text that is no JSON stands there as a JSON string. */
function readCall(text: string): { name: unknown; arguments: string } {
  const { name, arguments: value } = JSON.parse(text) as { name: unknown; arguments: unknown };
  return { name, arguments: typeof value === "string" ? value : (memberText(text, "arguments") ?? "{}") };
}

/** Calls have the ids by which the tools' messages answer them; one that nothing answers gets an id of its place. */
function nameCalls(messages: readonly Record<string, unknown>[]): void {
  for (const [at, message] of messages.entries()) {
    const calls = (message.tool_calls ?? []) as Record<string, unknown>[];
    for (const [nth, call] of calls.entries()) {
      const answer = messages[at + 1 + nth];
      call.id ??= answer?.role === "tool" ? answer.tool_call_id : `call_${at}_${nth}`;
    }
  }
}

/** An answer as a sampled turn: reasoning and calls between markers, as the parsers read them, and the end. */
export function writeTurn(message: AssistantMessage, isCut: boolean): { ids: number[]; contentAt: number } {
  const reasoning = message.reasoning ?? message.reasoning_content ?? "";
  const before = reasoning === "" ? [] : [THINK, ...encodeText(reasoning), THINK_END];
  const calls = (message.tool_calls ?? []).flatMap(({ function: { name, arguments: args } }) => [
    CALL,
    ...encodeText(`{"name": ${JSON.stringify(name)}, "arguments": ${isJson(args) ? args : JSON.stringify(args)}}`),
    CALL_END,
  ]);
  const content = encodeText(message.content ?? "");
  const ids = [...before, ...content, ...calls, ...(isCut ? [] : [CHAT_IDS.end])];
  return { ids, contentAt: before.length };
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
