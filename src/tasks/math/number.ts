import { plainNotation, withoutUnit } from "./notation.ts";

/** A number as an exact fraction: money, decimals and fractions compare without rounding. `denominator` > 0. */
export interface Fraction {
  numerator: bigint;
  denominator: bigint;
}

/** Longer numerals are no answers to word problems, and bigints of any length would let a reply cost minutes. */
const DIGITS_MAX = 200;
const NUMERAL =
  /^([+-]?)(\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+|\d{1,3}(?:_\d{3})+|\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/;
const MIXED = /^([+-]?)(\d+) (\d+)\/(\d+)$/;

/**
 * Reads `1,234.50`, `-3`, `2/4`, `1 1/2`, `$18`, `25%`, `6.02e3`, `\frac{3}{4}`; null when it is no number. Currency and
 * percent signs are dropped, as GSM8K's own answers drop them; any word is not.
 */
export function parseNumber(text: string): Fraction | null {
  return text.length > CHARS_MAX ? null : parsePlain(plainNotation(text));
}

/** The same for an answer in a reply, which may have a variable before and a unit after it: `x = 18`, `18 eggs`. */
export function parseAnswer(text: string): Fraction | null {
  if (text.length > CHARS_MAX) return null;
  const plain = plainNotation(text);
  const bare = withoutUnit(plain);
  return parsePlain(plain) ?? (bare === null ? null : parsePlain(bare));
}

/** A number with its markup and unit. */
const CHARS_MAX = 2 * DIGITS_MAX;

/** True when both are the same number. */
export function sameNumber(left: Fraction, right: Fraction): boolean {
  return left.numerator * right.denominator === right.numerator * left.denominator;
}

function parsePlain(text: string): Fraction | null {
  if (text.length === 0 || text.length > DIGITS_MAX) return null;
  const mixed = parseMixed(text);
  if (mixed !== null) return mixed;
  const slash = text.indexOf("/");
  if (slash < 0) return parseDecimal(text);
  const [left, right] = [parseDecimal(text.slice(0, slash).trim()), parseDecimal(text.slice(slash + 1).trim())];
  if (!left || !right || right.numerator === 0n) return null;
  const sign = right.numerator < 0n ? -1n : 1n;
  return {
    numerator: left.numerator * right.denominator * sign,
    denominator: left.denominator * right.numerator * sign,
  };
}

/** `1 1/2`. What stands after the space must be less than one: `1 234/2` has a space between its thousands. */
function parseMixed(text: string): Fraction | null {
  const [, sign = "", whole = "", over = "", under = ""] = MIXED.exec(text) ?? [];
  if (whole === "") return null;
  const denominator = BigInt(under);
  if (BigInt(over) >= denominator) return null;
  const magnitude = BigInt(whole) * denominator + BigInt(over);
  return { numerator: sign === "-" ? -magnitude : magnitude, denominator };
}

function parseDecimal(text: string): Fraction | null {
  const match = NUMERAL.exec(text);
  if (!match) return null;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  const digits = whole.replace(/[, _]/g, "") + fraction;
  if (digits.length === 0) return null;
  const shift = Number(exponent) - fraction.length;
  const magnitude = BigInt(digits) * 10n ** BigInt(Math.max(shift, 0));
  return { numerator: sign === "-" ? -magnitude : magnitude, denominator: 10n ** BigInt(Math.max(-shift, 0)) };
}
