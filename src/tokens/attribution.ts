import type { Message } from "../trajectory/message.ts";
import type { Encoded } from "./template-source.ts";

/** Half-open span of a message's content in the rendered text, in UTF-16 units. */
export interface ContentSpan {
  message: number;
  start: number;
  end: number;
}

/** The messages with each content replaced by a sentinel that no text contains; empty contents stay empty. */
export function withSentinels(messages: readonly Message[]): Message[] {
  return messages.map((message, index) =>
    message.content === "" ? message : { ...message, content: sentinelOf(index) },
  );
}

/** Stands for the content of message `index`; private-use characters keep it from merging with template text. */
export function sentinelOf(index: number): string {
  return `\uE0F0rolloutd ${index}\uE0F1`;
}

/**
 * Where each message's content stands in `text`. `scaffold` is the rendering of `withSentinels(messages)`: when the
 * pieces between its sentinels and the contents give `text` back, the spans are exact. Otherwise (a template that
 * rewrites contents) contents are searched one after another, and one that is not found has no span.
 */
export function locateContents(text: string, scaffold: string | null, messages: readonly Message[]): ContentSpan[] {
  return (scaffold === null ? null : spansByScaffold(text, scaffold, messages)) ?? spansBySearch(text, messages);
}

function spansByScaffold(text: string, scaffold: string, messages: readonly Message[]): ContentSpan[] | null {
  const spans: ContentSpan[] = [];
  let from = 0;
  let at = 0;
  for (const [index, message] of messages.entries()) {
    if (message.content === "") continue;
    const sentinel = sentinelOf(index);
    const found = scaffold.indexOf(sentinel, from);
    if (found < 0) return null;
    const before = scaffold.slice(from, found);
    if (!text.startsWith(before, at)) return null;
    at += before.length;
    const shown = [message.content, message.content.trim()].find((content) => text.startsWith(content, at));
    if (shown === undefined) return null;
    spans.push({ message: index, start: at, end: at + shown.length });
    at += shown.length;
    from = found + sentinel.length;
  }
  return scaffold.slice(from) === text.slice(at) ? spans : null;
}

function spansBySearch(text: string, messages: readonly Message[]): ContentSpan[] {
  const spans: ContentSpan[] = [];
  let at = 0;
  for (const [index, message] of messages.entries()) {
    const content = message.content.trim();
    const start = content === "" ? -1 : text.indexOf(content, at);
    if (start < 0) continue;
    spans.push({ message: index, start, end: start + content.length });
    at = start + content.length;
  }
  return spans;
}

/**
 * Gives each id the message whose content its first byte belongs to, -1 for template text. Without byte lengths, or
 * when they do not add up to the text, everything is template text: attribution may be absent, ids never change.
 */
export function attribute(text: string, encoded: Encoded, spans: readonly ContentSpan[]): Int32Array {
  const owners = new Int32Array(encoded.ids.length).fill(-1);
  const lengths = encoded.byteLengths;
  if (lengths === null || lengths.length !== owners.length) return owners;
  const total = lengths.reduce((sum, length) => sum + length, 0);
  if (total !== Buffer.byteLength(text)) return owners;
  const byteSpans = toBytes(text, spans);
  let byte = 0;
  let span = 0;
  for (let index = 0; index < owners.length; index += 1) {
    while (span < byteSpans.length && byte >= (byteSpans[span]?.end ?? 0)) span += 1;
    const current = byteSpans[span];
    if (current !== undefined && byte >= current.start) owners[index] = current.message;
    byte += lengths[index] ?? 0;
  }
  return owners;
}

function toBytes(text: string, spans: readonly ContentSpan[]): ContentSpan[] {
  let unit = 0;
  let byte = 0;
  const advance = (to: number) => {
    byte += Buffer.byteLength(text.slice(unit, to));
    unit = to;
    return byte;
  };
  return spans.map((span) => ({ message: span.message, start: advance(span.start), end: advance(span.end) }));
}
