import { isDict, isList, isText, type Value } from "./values.ts";

/** What Python's `str` gives: the text of `{{ value }}` in a template. Undefined is empty. */
export function pythonText(value: Value): string {
  if (isText(value)) return value.value;
  return value.type === "UndefinedValue" ? "" : pythonRepr(value);
}

/** What Python's `repr` gives: `True`, `None`, `1e-07`, `{'a': [1, 2.0]}`. */
export function pythonRepr(value: Value): string {
  if (isText(value)) return textRepr(value.value);
  if (value.type === "TupleValue" && isList(value)) {
    const items = value.value.map(pythonRepr);
    return `(${items.join(", ")}${items.length === 1 ? "," : ""})`;
  }
  if (isList(value)) return `[${value.value.map(pythonRepr).join(", ")}]`;
  if (isDict(value)) {
    return `{${Array.from(value.value, ([key, member]) => `${textRepr(key)}: ${pythonRepr(member)}`).join(", ")}}`;
  }
  switch (value.type) {
    case "BooleanValue":
      return value.value ? "True" : "False";
    case "NullValue":
      return "None";
    case "UndefinedValue":
      return "Undefined";
    case "IntegerValue":
      return String(value.value);
    case "FloatValue":
      return pythonFloat(value.value as number);
    default:
      throw new TypeError(`a ${value.type} has no text`);
  }
}

/** Shortest text that gives the same float again, in Python's form: an exponent below 1e-4 and from 1e16 on. */
export function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const [mantissa = "", exponentText = "0"] = value.toExponential().split("e");
  const exponent = Number(exponentText);
  const sign = Object.is(value, -0) ? "-" : "";
  if (exponent >= -4 && exponent < 16) {
    const digits = mantissa.replace(/[-.]/g, "");
    // toString turns to exponents only beyond these bounds, but drops the fraction of whole numbers.
    const plain = exponent < 0 ? small(value, digits, exponent) : value.toString();
    return sign + (plain.includes(".") ? plain : `${plain}.0`);
  }
  const size = Math.abs(exponent).toString().padStart(2, "0");
  return `${sign}${mantissa}e${exponent < 0 ? "-" : "+"}${size}`;
}

function small(value: number, digits: string, exponent: number): string {
  return `${value < 0 ? "-" : ""}0.${"0".repeat(-exponent - 1)}${digits}`;
}

const ESCAPES: Readonly<Record<string, string>> = { "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t" };

function textRepr(value: string): string {
  const quote = value.includes("'") && !value.includes('"') ? '"' : "'";
  let shown = "";
  for (const char of value) {
    if (char === quote) shown += `\\${char}`;
    else shown += ESCAPES[char] ?? (/^[\p{C}\p{Z}]$/u.test(char) && char !== " " ? codeOf(char) : char);
  }
  return `${quote}${shown}${quote}`;
}

function codeOf(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

export interface JsonStyle {
  indent: number | null;
  ensureAscii: boolean;
  sortKeys: boolean;
  separators: readonly [string, string] | null;
}

/** What Python's `json.dumps` gives, which `tojson` is in the templates' reference engine. Throws TypeError like it. */
export function pythonJson(value: Value, style: JsonStyle, depth = 0): string {
  if (isText(value)) return jsonText(value.value, style.ensureAscii);
  const [between, colon] = style.separators ?? [style.indent === null ? ", " : ",", ": "];
  const line = (level: number) => (style.indent === null ? "" : `\n${" ".repeat(style.indent * level)}`);
  const wrap = (open: string, parts: readonly string[], close: string) =>
    parts.length === 0
      ? open + close
      : `${open}${line(depth + 1)}${parts.join(`${between}${line(depth + 1)}`)}${line(depth)}${close}`;
  if (isList(value)) {
    return wrap(
      "[",
      value.value.map((item) => pythonJson(item, style, depth + 1)),
      "]",
    );
  }
  if (isDict(value)) {
    const members = Array.from(value.value);
    if (style.sortKeys) members.sort(([left], [right]) => comparePoints(left, right));
    const parts = members.map(
      ([key, member]) => `${jsonText(key, style.ensureAscii)}${colon}${pythonJson(member, style, depth + 1)}`,
    );
    return wrap("{", parts, "}");
  }
  switch (value.type) {
    case "BooleanValue":
      return value.value ? "true" : "false";
    case "NullValue":
      return "null";
    case "IntegerValue":
      return String(value.value);
    case "FloatValue":
      return jsonFloat(value.value as number);
    default:
      throw new TypeError(`a ${value.type} is no JSON`);
  }
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  return pythonFloat(value);
}

function jsonText(value: string, ensureAscii: boolean): string {
  const shown = JSON.stringify(value);
  if (!ensureAscii) return shown;
  return shown.replace(/[\u007f-\uffff]/g, (unit) =>
    unit === "\u007f" ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** By code points, as Python orders texts; UTF-16 units order the rest of Unicode otherwise. */
function comparePoints(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}
