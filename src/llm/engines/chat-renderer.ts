import { createHash } from "node:crypto";
import type { Rendered, Renderer } from "../../tokens/renderer.ts";
import { templateTool, wireMessage } from "../../tokens/template-source.ts";
import type { Message, ToolSchema } from "../../trajectory/message.ts";
import { CHAT_IDS, decodeText, encodeText, markerIdOf } from "./chat-ids.ts";

/**
 * Conversations as ids for servers that take and give text alone: bytes between marks, from which the engine reads
 * the very same messages again. What a message says cannot pass for a mark.
 */
export function createChatRenderer(): Renderer {
  const name = (part: string) => createHash("sha256").update(`chat ${part}`).digest("hex");
  return {
    kind: "local",
    tokenizerHash: name("bytes"),
    templateHash: name("marks"),
    endIds: [CHAT_IDS.end],
    async renderPrompt(messages, tools) {
      const pieces: Piece[] = tools.length === 0 ? [] : [scaffold([CHAT_IDS.tools, ...json(tools), CHAT_IDS.end])];
      return join([...pieces, ...messages.flatMap(show), scaffold([CHAT_IDS.turn])]);
    },
    async renderDelta(added, _tools, endedByModel) {
      const end = endedByModel ? [] : [scaffold([CHAT_IDS.end])];
      return join([...end, ...added.flatMap(show), scaffold([CHAT_IDS.turn])]);
    },
    decode: async (ids, keepSpecial) => decodeText(Array.from(ids), keepSpecial),
    markerId: markerIdOf,
  };
}

interface Piece {
  ids: readonly number[];
  content: 0 | 1;
  message: number;
}

function scaffold(ids: readonly number[]): Piece {
  return { ids, content: 0, message: -1 };
}

/** All of a message but its content as JSON, then the content. */
function show(message: Message, index: number): Piece[] {
  const { content: _, ...rest } = wireMessage(message);
  return [
    scaffold([CHAT_IDS.message, ...encodeText(JSON.stringify(rest)), CHAT_IDS.content]),
    { ids: encodeText(message.content), content: 1, message: index },
    scaffold([CHAT_IDS.end]),
  ];
}

function json(tools: readonly ToolSchema[]): number[] {
  return encodeText(JSON.stringify(tools.map(templateTool)));
}

function join(pieces: readonly Piece[]): Rendered {
  return {
    ids: Int32Array.from(pieces.flatMap(({ ids }) => ids)),
    content: Uint8Array.from(pieces.flatMap(({ ids, content }) => ids.map(() => content))),
    message: Int32Array.from(pieces.flatMap(({ ids, message }) => ids.map(() => message))),
  };
}
