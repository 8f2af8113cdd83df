import { Environment } from "@huggingface/jinja";
import { type Json, JsonNumber } from "./json.ts";

/** A value of the template engine. Integers beyond 2^53 hold a bigint, which the engine itself never makes. */
export type Value = ReturnType<Environment["set"]>;

type Function_ = (args: Value[], scope: Environment) => Value;
type Build = new (value?: unknown) => Value;

/** The engine exports no value classes: they are taken from values that it makes. */
function classOf(sample: unknown): Build {
  const value = new Environment().set("sample", sample);
  return value.constructor as Build;
}

const IntegerValue = classOf(1);
const FloatValue = classOf(0.5);
const StringValue = classOf("");
const BooleanValue = classOf(true);
const NullValue = classOf(null);
const UndefinedValue = classOf(undefined);
const ArrayValue = classOf([]);
const ObjectValue = classOf({});
const FunctionValue = classOf(() => null);

export const UNDEFINED: Value = new UndefinedValue();
export const NONE: Value = new NullValue(null);

export const text = (value: string): Value => new StringValue(value);
export const boolean = (value: boolean): Value => new BooleanValue(value);
export const integer = (value: number | bigint): Value => new IntegerValue(value);
export const float = (value: number): Value => new FloatValue(value);
export const list = (items: readonly Value[]): Value => new ArrayValue([...items]);
export const dict = (members: ReadonlyMap<string, Value>): Value => new ObjectValue(new Map(members));
export const callable = (call: Function_): Value => new FunctionValue(call);

/** A template's value of a JSON value. A number with a fraction or an exponent is a float, as in Python. */
export function fromJson(json: Json): Value {
  if (json === null) return NONE;
  if (typeof json === "boolean") return boolean(json);
  if (typeof json === "string") return text(json);
  if (json instanceof JsonNumber) return fromNumber(json.text);
  if (Array.isArray(json)) return list(json.map(fromJson));
  return dict(new Map(Array.from(json, ([key, value]) => [key, fromJson(value)])));
}

function fromNumber(written: string): Value {
  if (/[.eE]/.test(written)) return float(Number(written));
  const value = Number(written);
  return integer(Number.isSafeInteger(value) ? value + 0 : BigInt(written));
}

export function isText(value: Value): value is Value & { value: string } {
  return value.type === "StringValue";
}

export function isList(value: Value): value is Value & { value: Value[] } {
  return value.type === "ArrayValue" || value.type === "TupleValue";
}

export function isDict(value: Value): value is Value & { value: Map<string, Value> } {
  return value.type === "ObjectValue" || value.type === "KeywordArgumentsValue";
}

/** The keys of a dict as texts, in order. */
export function keysOf(value: Value & { value: Map<string, Value> }): Value[] {
  const members: ReadonlyMap<string, Value> = value.value;
  return Array.from(members.keys(), text);
}

export function isNumber(value: Value): boolean {
  return value.type === "IntegerValue" || value.type === "FloatValue" || value.type === "BooleanValue";
}

export function isUndefined(value: Value): boolean {
  return value.type === "UndefinedValue";
}

/** Truth as Python has it. */
export function isTrue(value: Value): boolean {
  if (isList(value)) return value.value.length > 0;
  if (isDict(value)) return value.value.size > 0;
  if (value.type === "FunctionValue" || value.type === "NamespaceValue") return true;
  return Boolean(value.value);
}

/** Equality as Python has it: by content for lists and dicts; numbers and truth values compare with one another. */
export function areEqual(left: Value, right: Value): boolean {
  if (isNumber(left) && isNumber(right)) {
    const [a, b] = [left, right].map(({ value }) => (typeof value === "boolean" ? Number(value) : value)) as number[];
    // A bigint and a number are compared by worth, which strict equality does not do.
    return a !== undefined && b !== undefined && a <= b && a >= b;
  }
  if (isList(left) && isList(right)) {
    if (left.type !== right.type || left.value.length !== right.value.length) return false;
    return left.value.every((item, index) => areEqual(item, right.value[index] ?? UNDEFINED));
  }
  if (isDict(left) && isDict(right)) {
    if (left.value.size !== right.value.size) return false;
    return Array.from(left.value).every(([key, value]) => areEqual(value, right.value.get(key) ?? UNDEFINED));
  }
  return left.type === right.type && left.value === right.value;
}
