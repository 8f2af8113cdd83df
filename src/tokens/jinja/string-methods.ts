import { PythonTypeError } from "./refusal.ts";
import { boolean, callable, integer, isDict, isList, isText, list, text, type Value } from "./values.ts";

/** What Python counts as space: JavaScript's `trim` takes U+FEFF with it and leaves U+001C to U+001F and U+0085. */
const SPACE = "\\t\\n\\v\\f\\r\\x1c-\\x1f \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000";
const LEADING = new RegExp(`^[${SPACE}]+`);
const TRAILING = new RegExp(`[${SPACE}]+$`);
const BREAKS = "\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029";
const LINE_END = new RegExp(`\\r\\n|[${BREAKS}]`);
const SPACES = new RegExp(`[${SPACE}]+`);

export type Side = "both" | "left" | "right";

/** Python's `strip`, `lstrip` and `rstrip`: of spaces, or of any of the characters given. */
export function strip(value: string, side: Side, chars: string | null = null): string {
  if (chars === null) {
    const left = side === "right" ? value : value.replace(LEADING, "");
    return side === "left" ? left : left.slice(0, trailingStart(left));
  }
  const points = Array.from(value);
  const set = new Set(chars);
  let from = 0;
  let to = points.length;
  while (side !== "right" && from < to && set.has(points[from] ?? "")) from += 1;
  while (side !== "left" && to > from && set.has(points[to - 1] ?? "")) to -= 1;
  return points.slice(from, to).join("");
}

/** A regular expression at the end of a long text is tried at every space in it; walking back is linear. */
function trailingStart(value: string): number {
  let end = value.length;
  while (end > 0 && TRAILING.test(value[end - 1] ?? "")) end -= 1;
  return end;
}

type Method = (value: string, args: readonly Value[]) => Value;

const METHODS: Readonly<Record<string, Method>> = {
  strip: (value, [chars]) => text(strip(value, "both", optionalText(chars))),
  lstrip: (value, [chars]) => text(strip(value, "left", optionalText(chars))),
  rstrip: (value, [chars]) => text(strip(value, "right", optionalText(chars))),
  split: (value, args) => list(split(value, args).map(text)),
  rsplit: (value, args) => list(rsplit(value, args).map(text)),
  splitlines: (value) => list(lines(value).map(text)),
  startswith: (value, [prefix]) => boolean(affixes(prefix).some((affix) => value.startsWith(affix))),
  endswith: (value, [suffix]) => boolean(affixes(suffix).some((affix) => value.endsWith(affix))),
  removeprefix: (value, [prefix]) => {
    const affix = requiredText(prefix);
    return text(value.startsWith(affix) ? value.slice(affix.length) : value);
  },
  removesuffix: (value, [suffix]) => {
    const affix = requiredText(suffix);
    return text(affix !== "" && value.endsWith(affix) ? value.slice(0, -affix.length) : value);
  },
  replace: (value, [from, to, count]) => text(replace(value, requiredText(from), requiredText(to), count)),
  lower: (value) => text(value.toLowerCase()),
  upper: (value) => text(value.toUpperCase()),
  capitalize: (value) => {
    const [first = "", ...rest] = value;
    return text(first.toUpperCase() + rest.join("").toLowerCase());
  },
  title: (value) =>
    text(value.toLowerCase().replace(/\p{L}+/gu, (word) => word.replace(/^./u, (first) => first.toUpperCase()))),
  find: (value, [part]) => {
    const at = value.indexOf(requiredText(part));
    return integer(at < 0 ? -1 : Array.from(value.slice(0, at)).length);
  },
  count: (value, [part]) => integer(value.split(requiredText(part)).length - 1),
  join: (value, [items]) => {
    if (items === undefined || !isList(items)) throw refused("join() takes a list");
    return text(items.value.map(requiredText).join(value));
  },
  isdigit: (value) => boolean(/^\p{Nd}+$/u.test(value)),
};

/** A method of a text as Python has it; null for a name that is none of those known here. */
export function stringMethod(value: string, name: string): Value | null {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined;
  return method === undefined ? null : callable((args) => method(value, positional(args, name)));
}

function positional(args: readonly Value[], name: string): Value[] {
  const last = args.at(-1);
  if (last === undefined || last.type !== "KeywordArgumentsValue" || !isDict(last)) return [...args];
  const count = last.value.get("count") ?? last.value.get("maxsplit");
  if (last.value.size !== 1 || count === undefined) {
    throw new SyntaxError(`unknown keyword of ${name}(): ${[...last.value.keys()].join(", ")}`);
  }
  const given = args.slice(0, -1);
  const place = name === "replace" ? 2 : 1;
  return [...given, ...Array.from({ length: place - given.length }, () => text(" ")), count];
}

function split(value: string, [separator, limit]: readonly Value[]): string[] {
  const max = limit === undefined ? -1 : Number(limit.value);
  const sep = optionalText(separator);
  if (sep === "") throw refused("empty separator");
  const parts =
    sep === null
      ? strip(value, "both")
          .split(SPACES)
          .filter((part) => part !== "")
      : value.split(sep);
  if (max < 0 || parts.length <= max + 1) return parts;
  if (sep === null) throw new SyntaxError("split() by spaces with a limit is not known here");
  return [...parts.slice(0, max), parts.slice(max).join(sep)];
}

function rsplit(value: string, args: readonly Value[]): string[] {
  const [separator, limit] = args;
  const parts = split(value, separator === undefined ? [] : [separator]);
  const max = limit === undefined ? -1 : Number(limit.value);
  if (max < 0 || parts.length <= max + 1) return parts;
  const from = parts.length - max;
  return [parts.slice(0, from).join(requiredText(separator)), ...parts.slice(from)];
}

function lines(value: string): string[] {
  const found = value.split(LINE_END);
  if (found.at(-1) === "") found.pop();
  return found;
}

function replace(value: string, from: string, to: string, count: Value | undefined): string {
  const max = count === undefined ? -1 : Number(count.value);
  if (max < 0) return value.replaceAll(from, () => to);
  const parts = value.split(from);
  return [parts.slice(0, max + 1).join(to), ...parts.slice(max + 1)].join(from);
}

function affixes(value: Value | undefined): string[] {
  if (value !== undefined && isList(value)) return value.value.map(requiredText);
  return [requiredText(value)];
}

function optionalText(value: Value | undefined): string | null {
  return value === undefined || value.type === "NullValue" ? null : requiredText(value);
}

function requiredText(value: Value | undefined): string {
  if (value === undefined || !isText(value)) throw refused("a text is wanted as argument");
  return value.value;
}

function refused(detail: string): PythonTypeError {
  return new PythonTypeError(detail);
}
