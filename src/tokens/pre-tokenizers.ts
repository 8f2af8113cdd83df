/** The pattern of the byte-level step, which the reference runs where the step has none of its own. */
const BYTE_LEVEL = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/**
 * The tokenizer with steps written out as the patterns that the reference means by them. The tokenizer at hand takes 0
 * to 9 alone for digits, where the reference takes every numeric character (½, Ⅷ), and spaces by JavaScript's list.
 */
export function withReferencePatterns(tokenizer: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return { ...tokenizer, pre_tokenizer: replaced(tokenizer.pre_tokenizer) };
}

function replaced(step: unknown): unknown {
  if (typeof step !== "object" || step === null) return step;
  const given = (name: string): unknown => Reflect.get(step, name);
  const inner = given("pretokenizers");
  if (Array.isArray(inner)) return { ...step, pretokenizers: inner.map(replaced) };
  if (given("type") === "Digits") return split(given("individual_digits") === true ? "\\p{N}" : "\\p{N}+");
  if (given("type") === "ByteLevel" && given("use_regex") !== false && given("add_prefix_space") === false) {
    return { type: "Sequence", pretokenizers: [split(BYTE_LEVEL), { ...step, use_regex: false }] };
  }
  return step;
}

function split(pattern: string): unknown {
  return { type: "Split", pattern: { Regex: pattern }, behavior: "Isolated", invert: false };
}
