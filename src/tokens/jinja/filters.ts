import { type JsonStyle, pythonJson, pythonText } from "./python-text.ts";
import { PythonTypeError } from "./refusal.ts";
import { markSafe } from "./safe-text.ts";
import { strip } from "./string-methods.ts";
import {
  areEqual,
  boolean,
  integer,
  isDict,
  isList,
  isText,
  isTrue,
  keysOf,
  list,
  NONE,
  text,
  UNDEFINED,
  type Value,
} from "./values.ts";

export interface FilterCall {
  name: string;
  args: readonly Value[];
  named: ReadonlyMap<string, Value>;
}

/** The filter's answer as Python's engine gives it; null for filters that the engine at hand answers alike. */
export function applyPythonFilter(operand: Value, call: FilterCall): Value | null {
  const [first] = call.args;
  switch (call.name) {
    case "tojson":
      return text(toJson(operand, call));
    case "safe":
      return markSafe(pythonText(operand));
    case "string":
      return text(pythonText(operand));
    case "trim":
      return text(strip(pythonText(operand), "both", first !== undefined && isText(first) ? first.value : null));
    case "upper":
      return text(pythonText(operand).toUpperCase());
    case "lower":
      return text(pythonText(operand).toLowerCase());
    case "length":
    case "count":
      return integer(lengthOf(operand));
    case "list":
      return list(itemsOf(operand));
    case "items":
      return operand.type === "UndefinedValue" ? list([]) : list(pairsOf(operand));
    case "join":
      return text(join(operand, call));
    case "default":
    case "d":
      return withDefault(operand, call);
    case "first":
      return itemsOf(operand)[0] ?? UNDEFINED;
    case "last":
      return itemsOf(operand).at(-1) ?? UNDEFINED;
    case "selectattr":
    case "rejectattr":
      // Python's filter asks for the truth of the list first: none of `none` are chosen.
      return list(choices(operand).filter((item) => isChosen(item, call) === (call.name === "selectattr")));
    default:
      return null;
  }
}

function toJson(value: Value, { args, named }: FilterCall): string {
  if (args.length > 0) throw new SyntaxError("tojson takes named arguments only");
  const separators = named.get("separators");
  const [between, colon] = separators !== undefined && isList(separators) ? separators.value : [];
  const indent = named.get("indent");
  const style: JsonStyle = {
    indent: indent === undefined || indent.type === "NullValue" ? null : Number(indent.value),
    ensureAscii: isTrue(named.get("ensure_ascii") ?? boolean(false)),
    sortKeys: isTrue(named.get("sort_keys") ?? boolean(false)),
    separators: between === undefined || colon === undefined ? null : [pythonText(between), pythonText(colon)],
  };
  try {
    return pythonJson(value, style);
  } catch (error) {
    throw error instanceof TypeError ? new PythonTypeError(error.message) : error;
  }
}

function lengthOf(value: Value): number {
  if (isText(value)) return Array.from(value.value).length;
  if (isList(value)) return value.value.length;
  if (isDict(value)) return value.value.size;
  if (value.type === "UndefinedValue") return 0;
  throw new PythonTypeError(`a ${value.type} has no length`);
}

function itemsOf(value: Value): Value[] {
  if (isList(value)) return value.value;
  if (isText(value)) return Array.from(value.value, text);
  if (isDict(value)) return keysOf(value);
  if (value.type === "UndefinedValue") return [];
  throw new PythonTypeError(`a ${value.type} is not iterable`);
}

function choices(value: Value): Value[] {
  return isTrue(value) ? itemsOf(value) : [];
}

function pairsOf(value: Value): Value[] {
  if (!isDict(value)) throw new PythonTypeError(`a ${value.type} has no items`);
  return Array.from(value.value, ([key, member]) => list([text(key), member]));
}

function join(value: Value, { args, named }: FilterCall): string {
  if (named.has("attribute") || args.length > 1) throw new SyntaxError("join by attribute is not known here");
  const between = args[0] ?? named.get("d") ?? text("");
  return itemsOf(value).map(pythonText).join(pythonText(between));
}

function withDefault(value: Value, { args, named }: FilterCall): Value {
  const other = args[0] ?? named.get("default_value") ?? text("");
  const isAlsoForFalse = isTrue(args[1] ?? named.get("boolean") ?? boolean(false));
  return value.type === "UndefinedValue" || (isAlsoForFalse && !isTrue(value)) ? other : value;
}

/** Whether the item has the attribute that is asked for: by a test, or by its truth. */
function isChosen(item: Value, { args }: FilterCall): boolean {
  const [attribute, test, against = NONE] = args;
  if (attribute === undefined || !isText(attribute) || attribute.value.includes(".")) {
    throw new SyntaxError("selectattr by such an attribute is not known here");
  }
  const value = (isDict(item) ? item.value.get(attribute.value) : undefined) ?? UNDEFINED;
  if (test === undefined) return isTrue(value);
  switch (pythonText(test)) {
    case "defined":
      return value.type !== "UndefinedValue";
    case "undefined":
      return value.type === "UndefinedValue";
    case "none":
      return value.type === "NullValue";
    case "equalto":
    case "eq":
    case "==":
      return areEqual(value, against);
    case "ne":
    case "!=":
      return !areEqual(value, against);
    case "in":
      return itemsOf(against).some((wanted) => areEqual(wanted, value));
    default:
      throw new SyntaxError(`selectattr by ${pythonText(test)} is not known here`);
  }
}
