/** A number as an exact fraction: money, decimals and fractions compare without rounding. `denominator` > 0. */
export interface Fraction {
  numerator: bigint;
  denominator: bigint;
}

/** Longer numerals are no answers to word problems, and bigints of any length would let a reply cost minutes. */
const DIGITS_MAX = 200;
const NUMERAL = /^([+-]?)(\d+(?:,\d{3})*|\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/;

/**
 * Reads `1,234.50`, `-3`, `2/4`, `$18`, `25%`, `6.02e3`; null when it is no number. A currency sign, a percent sign and
 * a final period are dropped, as GSM8K's own answers drop them; any other word is not.
 */
export function parseNumber(text: string): Fraction | null {
  const bare = text
    .trim()
    .replace(/^\\?\$/, "")
    .replace(/\\?[%$]$/, "")
    .replace(/\.$/, "")
    .trim();
  if (bare.length === 0 || bare.length > DIGITS_MAX) return null;
  const slash = bare.indexOf("/");
  if (slash < 0) return parseDecimal(bare);
  const [left, right] = [parseDecimal(bare.slice(0, slash).trim()), parseDecimal(bare.slice(slash + 1).trim())];
  if (!left || !right || right.numerator === 0n) return null;
  const sign = right.numerator < 0n ? -1n : 1n;
  return {
    numerator: left.numerator * right.denominator * sign,
    denominator: left.denominator * right.numerator * sign,
  };
}

/** True when both are the same number. */
export function sameNumber(left: Fraction, right: Fraction): boolean {
  return left.numerator * right.denominator === right.numerator * left.denominator;
}

function parseDecimal(text: string): Fraction | null {
  const match = NUMERAL.exec(text);
  if (!match) return null;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  const digits = whole.replaceAll(",", "") + fraction;
  if (digits.length === 0) return null;
  const shift = Number(exponent) - fraction.length;
  const magnitude = BigInt(digits) * 10n ** BigInt(Math.max(shift, 0));
  return { numerator: sign === "-" ? -magnitude : magnitude, denominator: 10n ** BigInt(Math.max(-shift, 0)) };
}
