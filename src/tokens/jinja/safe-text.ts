import { isText, text, type Value } from "./values.ts";

/** Texts that went through `safe`: what is added to one with `+` is escaped for HTML, in chat templates as well. */
const SAFE = new WeakSet<Value>();
const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "'": "&#39;",
  '"': "&#34;",
};

/** The text marked as safe. */
export function markSafe(value: string): Value {
  const marked = text(value);
  SAFE.add(marked);
  return marked;
}

/** The sum of two texts when one of them is safe; null when neither is. */
export function addSafe(left: Value, right: Value): Value | null {
  if (!isText(left) || !isText(right) || (!SAFE.has(left) && !SAFE.has(right))) return null;
  return markSafe(shown(left, left.value) + shown(right, right.value));
}

function shown(value: Value, content: string): string {
  return SAFE.has(value) ? content : content.replace(/[&<>'"]/g, (char) => ENTITIES[char] ?? char);
}
