/** How people and models write one number, brought to plain digits. Nothing here computes. */

const FRACTION =
  /(\d?)\s*\\[dt]?frac(?:\{\s*([+-]?\d+(?:\.\d+)?)\s*\}\{\s*([+-]?\d+(?:\.\d+)?)\s*\}|(\d)(\d))(?![\d.])/g;
const WRAPPING = /^(?:[\s*_`]|\\[([])+|(?:[\s*_`]|\\[)\]])+$/g;
const CURRENCY = /^([+-]?)\s*(?:\\?\$|[€£¥])\s*/;

/**
 * `$18.00` as `18.00`, `**−3**` as `-3`, `1\frac{1}{2}` as `1 1/2`, `25\%` as `25`: markup, currency and percent signs
 * and a final period go, Unicode and LaTeX become ASCII. Words, also those in `\text{}`, stay.
 */
export function plainNotation(text: string): string {
  return text
    .replace(/[\u2212\u2013]/g, "-")
    .replaceAll("\\!", "")
    .replace(/\\[,;: ]|[~\u00a0\u2009\u202f]/g, " ")
    .replaceAll("{,}", ",")
    .replace(/\\(?:text|mathrm|mbox)\{([^{}]*)\}/g, " $1 ")
    .replace(WRAPPING, "")
    .replace(FRACTION, "$1 $2$4/$3$5")
    .replace(/\.$/, "")
    .replace(CURRENCY, "$1")
    .replace(/\s*\\?[%$€£¥]$/, "")
    .replace(/\.$/, "")
    .replace(/\s+/g, " ")
    .trim()
    .replace(/^([+-]) /, "$1");
}

/** Words that make another number of the one before them, or leave open which it is. */
const NO_UNITS = new Set(
  (
    "and or to not nor but than below above under over less more fewer minus plus times by off about around approximately " +
    "hundred hundreds thousand thousands million millions billion billions trillion trillions k dozen dozens score scores " +
    "pair pairs couple couples gross half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths " +
    "seventh sevenths eighth eighths ninth ninths tenth tenths hundredth hundredths thousandth thousandths " +
    "pi tau squared cubed factorial mod negative sqrt"
  ).split(" "),
);
/** Other single letters are variables and constants. */
const LETTER_UNITS = "mgshlL";
const UNIT_WORDS_MAX = 3;
const UNIT_WORD = /^[A-Za-z]{1,20}(?:\/[A-Za-z]{1,20})?(?:\^?[23]|[²³])?$/;

/**
 * The number of an answer that may name a variable before it and a unit after it: `x = 18`, `18 dollars per day`,
 * `60 km/h`. Null when what follows could change the number: `2 dozen`, `18 or 19`, `3 x`. The unit is not compared.
 */
export function withoutUnit(plain: string): string | null {
  const bare = plain.replace(/^[A-Za-z] ?= ?/, "");
  const match = /^([+-]?[\d.][\d.,_/ ]*?) ([A-Za-z].*)$/.exec(bare);
  if (!match) return bare === plain ? null : bare;
  const [, number = "", unit = ""] = match;
  const words = unit.split(" ");
  return words.length <= UNIT_WORDS_MAX && words.every(isUnitWord) ? number : null;
}

function isUnitWord(word: string): boolean {
  if (!UNIT_WORD.test(word) || NO_UNITS.has(word.toLowerCase())) return false;
  return word.length > 1 || LETTER_UNITS.includes(word);
}
