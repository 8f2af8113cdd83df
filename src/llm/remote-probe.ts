/** What remote renderers of both dialects ask to learn about a tokenizer that they cannot see. */

/** Texts whose ids tell tokenizers apart: digits, spaces, scripts, emoji, code, marker-like text. */
export const TOKENIZER_PROBE: readonly string[] = [
  "Hello world, it's 12345.678 o'clock!",
  "  indented\n\tcode(x=[1, 2]);\r\n",
  "naïve Straße 日本語 한국어 العربية Ελληνικά",
  "😀🎉👩‍👩‍👧 e\u0301",
  '<tool_call>{"name": "bash"}</tool_call>',
];

/** Texts right behind an assistant's content that may be the token which ends its turn: at most the first. */
export function turnEndCandidates(after: string): string[] {
  const found = /^\s*(<[^<>\s]{1,60}>)/.exec(after)?.[1];
  return found === undefined ? [] : [found];
}

/**
 * Whether a piece is written as the special tokens are that a decoding without them leaves out. Markers such as
 * `<tool_call>` are ordinary added tokens and stay.
 */
export function looksSpecial(piece: string): boolean {
  return /^<\|[^<>\s]+\|>$|^<\/?s>$|^<(?:bos|eos|pad|unk|start_of_turn|end_of_turn|｜[^<>]+｜)>$/.test(piece);
}
