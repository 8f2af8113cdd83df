/** Where an answer stands in a reply, and by which mark it was found. */
export interface FoundAnswer {
  text: string;
  by: "boxed" | "####" | "ANSWER:" | "whole";
}

/**
 * The final answer of a reply: the last `\boxed{}`, else what follows the last `####` or `ANSWER:` on its line, else
 * the reply itself when it is one short line. Null when none of them is there: a number in passing is no answer.
 */
export function findAnswer(reply: string): FoundAnswer | null {
  const boxed = lastBoxed(reply);
  if (boxed !== null) return { text: boxed, by: "boxed" };
  const hashes = afterLast(reply, /#{4}[ \t]*([^\n]*)/g);
  if (hashes !== null) return { text: hashes, by: "####" };
  const marked = afterLast(reply, /\bANSWER:[ \t]*([^\n]*)/gi);
  if (marked !== null) return { text: marked, by: "ANSWER:" };
  const whole = reply.trim();
  return whole.length > 0 && whole.length <= WHOLE_CHARS_MAX && !whole.includes("\n")
    ? { text: whole, by: "whole" }
    : null;
}

/** Longest reply that counts as an answer by itself, as `finish` gives it. */
const WHOLE_CHARS_MAX = 64;

function afterLast(text: string, pattern: RegExp): string | null {
  let last: string | null = null;
  for (const match of text.matchAll(pattern)) last = (match[1] ?? "").trim();
  return last;
}

/** Contents of the last `\boxed{...}` with balanced braces; an unclosed one does not count. */
function lastBoxed(text: string): string | null {
  const start = text.lastIndexOf("\\boxed{");
  if (start < 0) return null;
  let depth = 0;
  for (let at = start + 6; at < text.length; at += 1) {
    if (text[at] === "{") depth += 1;
    else if (text[at] === "}") depth -= 1;
    if (depth === 0) return text.slice(start + 7, at).trim();
  }
  return null;
}
