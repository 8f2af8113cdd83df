import { type ReadCall, readArguments, turnOfCalls } from "./calls.ts";
import { type MarkedPart, splitAtMarkers } from "./marked-parts.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const START = "<|start|>";
const CHANNEL = "<|channel|>";
const MESSAGE = "<|message|>";
const MARKERS = [CHANNEL, START, MESSAGE, "<|constrain|>", "<|end|>", "<|call|>", "<|return|>"] as const;
const EXPECTED = `${CHANNEL}commentary to=functions.NAME <|constrain|>json${MESSAGE}{...}<|call|>`;

/** A message within a turn: what stands before `<|message|>`, and its text. */
interface HarmonyMessage {
  header: string;
  channel: string;
  text: string;
}

/**
 * A turn of gpt-oss: messages on channels. `analysis` is reasoning, `final` and `commentary` are content, a message
 * with a recipient `functions.NAME` is a call. Told by ids, so markers spelled in ordinary text are text.
 */
export async function parseHarmony(turn: SampledTurn): Promise<ParsedTurn> {
  const parts = await splitAtMarkers(turn, MARKERS);
  const messages = messagesOf(parts);
  if (messages.length === 0) {
    return {
      kind: "answer",
      content: parts
        .map((part) => part.text)
        .join("")
        .trim(),
      reasoning: null,
    };
  }
  const calls: ReadCall[] = [];
  const content: string[] = [];
  const reasoning: string[] = [];
  for (const message of messages) {
    const recipient = /(?:^|\s)to=(\S+)/.exec(message.header)?.[1];
    if (recipient !== undefined) calls.push(readCall(recipient, message.text));
    else (message.channel === "analysis" ? reasoning : content).push(message.text.trim());
  }
  const around = {
    content: content.filter((text) => text !== "").join("\n"),
    reasoning: reasoning.length === 0 ? null : reasoning.join("\n"),
  };
  return turnOfCalls(turn, calls, around);
}

/** A message without `<|message|>` was cut in its header: it says nothing yet. */
function messagesOf(parts: readonly MarkedPart[]): HarmonyMessage[] {
  const messages: HarmonyMessage[] = [];
  let header = "";
  let channel = "";
  for (const { marker, text } of parts) {
    if (marker === MESSAGE) {
      messages.push({ header, channel, text });
      header = "";
      channel = "";
    } else if (marker === CHANNEL) {
      channel = /^\s*(\S*)/.exec(text)?.[1] ?? "";
      header += ` ${text}`;
    } else {
      // The prompt opened the first message; later ones open with their role.
      header = marker === START ? text : `${header} ${text}`;
    }
  }
  return messages;
}

function readCall(recipient: string, text: string): ReadCall {
  const name = recipient.startsWith("functions.") ? recipient.slice("functions.".length) : "";
  if (name === "") return `goes to ${recipient}, which is no function; write ${EXPECTED}`;
  const args = readArguments(text, EXPECTED);
  return args.problem ?? { name, arguments: args.text };
}
