import { createHash } from "node:crypto";
import { type Encoded, KNOWN_MARKERS, type TemplateSource } from "../../tokens/template-source.ts";

/** Ids 0-255 are bytes; the markers follow. */
const MARKERS: readonly string[] = ["<|start|>", "<|end|>", ...KNOWN_MARKERS];
const FIRST_MARKER = 256;

/** The id that ends a scripted model's turn. */
export const SCRIPTED_END_ID = FIRST_MARKER + MARKERS.indexOf("<|end|>");

/** A tokenizer of bytes and a ChatML template, for the scripted model: whole, exact, and nothing to download. */
export function createScriptedSource(): TemplateSource {
  const name = (part: string) => createHash("sha256").update(`scripted ${part}`).digest("hex");
  return {
    kind: "local",
    tokenizerHash: name("tokenizer"),
    templateHash: name("template"),
    endIds: [SCRIPTED_END_ID],
    async render(messages, tools) {
      const shown = messages.map((message) => {
        const calls = (message.toolCalls ?? []).map(
          (call) => `<tool_call>${JSON.stringify({ name: call.name, arguments: call.arguments })}</tool_call>`,
        );
        return `<|start|>${message.role}\n${message.content}${calls.join("")}<|end|>\n`;
      });
      const offered = tools.length === 0 ? "" : `<|start|>tools\n${JSON.stringify(tools)}<|end|>\n`;
      return `${offered}${shown.join("")}<|start|>assistant\n`;
    },
    encode: async (text) => encodeScripted(text),
    decode: async (ids, keepSpecial) => decodeScripted(ids, keepSpecial),
    markerId: (marker) => (MARKERS.includes(marker) ? FIRST_MARKER + MARKERS.indexOf(marker) : null),
  };
}

/** Ids of a text; markers in it become their ids. */
export function encodeScripted(text: string): Encoded {
  const ids: number[] = [];
  const byteLengths: number[] = [];
  for (const part of text.split(new RegExp(`(${MARKERS.map((marker) => RegExp.escape(marker)).join("|")})`))) {
    const marker = MARKERS.indexOf(part);
    if (marker >= 0) {
      ids.push(FIRST_MARKER + marker);
      byteLengths.push(part.length);
      continue;
    }
    for (const byte of Buffer.from(part)) {
      ids.push(byte);
      byteLengths.push(1);
    }
  }
  return { ids, byteLengths };
}

/** Text of ids. */
export function decodeScripted(ids: readonly number[], keepSpecial: boolean): string {
  const parts = ids.map((id) => {
    if (id < FIRST_MARKER) return Buffer.from([id]);
    return Buffer.from(keepSpecial ? (MARKERS[id - FIRST_MARKER] ?? "") : "");
  });
  return Buffer.concat(parts).toString("utf8");
}
