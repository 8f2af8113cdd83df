import { Environment } from "@huggingface/jinja";
import { applyPythonFilter } from "./filters.ts";
import {
  BaseInterpreter,
  type BinaryNode,
  type FilterNode,
  type ForNode,
  type HeldNode,
  LOOP_ENDS,
  type MacroNode,
  type MemberNode,
  type NamesNode,
  type Node,
  type SelectNode,
  type TestNode,
  type UnaryNode,
} from "./nodes.ts";
import { pythonText } from "./python-text.ts";
import { PythonTypeError } from "./refusal.ts";
import { addSafe } from "./safe-text.ts";
import { stringMethod } from "./string-methods.ts";
import {
  areEqual,
  boolean,
  callable,
  dict,
  integer,
  isDict,
  isList,
  isNumber,
  isText,
  isTrue,
  isUndefined,
  keysOf,
  list,
  NONE,
  text,
  UNDEFINED,
  type Value,
} from "./values.ts";

/** Nodes that give no text of their own, or text that is already whole. */
const STATEMENTS = new Set(["Set", "If", "For", "Macro", "CallStatement", "FilterStatement", "Comment", "Program"]);
/** Methods of Python's dict that win over a member of that name when it is asked for by a dot. */
const DICT_METHODS = new Set(["items", "keys", "values", "get"]);

/**
 * The template engine with Python's semantics where it has JavaScript's: texts of values, equality, truth, scopes of
 * loops and macros, methods of texts, and errors where Python raises them.
 */
export class PythonInterpreter extends BaseInterpreter {
  override evaluate(node: Node | undefined, scope: Environment): Value {
    return node?.type === "Held" ? (node as HeldNode).held : super.evaluate(node, scope);
  }

  override evaluateBlock(nodes: readonly Node[], scope: Environment): Value {
    let shown = "";
    try {
      for (const node of nodes) {
        const value = this.evaluate(node, scope);
        if (!STATEMENTS.has(node.type)) shown += pythonText(value);
        else if (isText(value)) shown += value.value;
      }
    } catch (error) {
      // What a loop's body wrote before `break` or `continue` stands.
      if (isLoopEnd(error)) error.written = shown + (error.written ?? "");
      throw error;
    }
    return text(shown);
  }

  override evaluateFor(node: ForNode, scope: Environment): Value {
    const select = node.iterable.type === "SelectExpression" ? (node.iterable as SelectNode) : null;
    const items = iterate(this.evaluate(select?.lhs ?? node.iterable, scope)).filter((item) => {
      if (select === null) return true;
      const inner = new Environment(scope);
      bind(inner, node.loopvar, item);
      return isTrue(this.evaluate(select.test, inner));
    });
    if (items.length === 0) return this.evaluateBlock(node.defaultBlock, new Environment(scope));
    let shown = "";
    for (const [index, item] of items.entries()) {
      // A scope for each round: what one sets is gone in the next.
      const inner = new Environment(scope);
      bind(inner, node.loopvar, item);
      inner.setVariable("loop", loopValue(items, index));
      try {
        shown += pythonText(this.evaluateBlock(node.body, inner));
      } catch (error) {
        if (!isLoopEnd(error)) throw error;
        shown += error.written ?? "";
        if (error.constructor === LOOP_ENDS.break) break;
      }
    }
    return text(shown);
  }

  override evaluateMacro(node: MacroNode, scope: Environment): Value {
    super.evaluateMacro(node, scope);
    const macro = scope.lookupVariable(node.name.value);
    const call = macro.value as (args: Value[], from: Environment) => Value;
    // A macro sees where it was defined, not who calls it; `caller` alone comes from there.
    scope.setVariable(
      node.name.value,
      callable((args, from) => call(args, from.variables.has("caller") ? from : scope)),
    );
    return NONE;
  }

  override evaluateBinaryExpression(node: BinaryNode, scope: Environment): Value {
    const left = this.evaluate(node.left, scope);
    const operator = node.operator.value;
    if (operator === "and") return isTrue(left) ? this.evaluate(node.right, scope) : left;
    if (operator === "or") return isTrue(left) ? left : this.evaluate(node.right, scope);
    const right = this.evaluate(node.right, scope);
    switch (operator) {
      case "==":
        return boolean(areEqual(left, right));
      case "!=":
        return boolean(!areEqual(left, right));
      case "in":
        return boolean(contains(right, left));
      case "not in":
        return boolean(!contains(right, left));
      case "~":
        return text(pythonText(left) + pythonText(right));
    }
    const safe = operator === "+" ? addSafe(left, right) : null;
    if (safe !== null) return safe;
    if (operator === "+" && isText(left) !== isText(right)) {
      throw new PythonTypeError(`cannot add ${left.type} and ${right.type}`);
    }
    if (typeof left.value === "bigint" || typeof right.value === "bigint") {
      throw new SyntaxError(`${operator} of an integer beyond 2^53 is not known here`);
    }
    return super.evaluateBinaryExpression({ ...node, left: held(left), right: held(right) }, scope);
  }

  override evaluateUnaryExpression(node: UnaryNode, scope: Environment): Value {
    const argument = this.evaluate(node.argument, scope);
    if (node.operator.value === "not") return boolean(!isTrue(argument));
    return super.evaluateUnaryExpression({ ...node, argument: held(argument) }, scope);
  }

  override evaluateMemberExpression(node: MemberNode, scope: Environment): Value {
    const object = this.evaluate(node.object, scope);
    const name = node.computed ? null : node.property.value;
    if (isUndefined(object)) throw new PythonTypeError(`an undefined value has no members`);
    const known = { ...node, object: held(object) };
    if (isText(object) && typeof name === "string") return stringMethod(object.value, name) ?? UNDEFINED;
    if (isList(object) && typeof name === "string") return UNDEFINED;
    if (isDict(object) && typeof name === "string" && DICT_METHODS.has(name)) {
      return dictMethod(object.value, name);
    }
    if (object.type === "NullValue" || isNumber(object)) return UNDEFINED;
    if (!node.computed || node.property.type === "SliceExpression") return super.evaluateMemberExpression(known, scope);
    const key = this.evaluate(node.property, scope);
    if (isText(object) && key.type === "IntegerValue") {
      const char = Array.from(object.value).at(Number(key.value));
      return char === undefined ? UNDEFINED : text(char);
    }
    if (isDict(object) && !isText(key)) return UNDEFINED;
    if (isUndefined(key)) return UNDEFINED;
    return super.evaluateMemberExpression(
      { ...known, property: held(key) as unknown as MemberNode["property"] },
      scope,
    );
  }

  override evaluateTestExpression(node: TestNode, scope: Environment): Value {
    const operand = this.evaluate(node.operand, scope);
    const result = test(node.test.value, operand);
    if (result !== null) return boolean(node.negate ? !result : result);
    return super.evaluateTestExpression({ ...node, operand: held(operand) }, scope);
  }

  override evaluateIf(node: Parameters<BaseIf>[0], scope: Environment): Value {
    const isMet = isTrue(this.evaluate(node.test, scope));
    return this.evaluateBlock(isMet ? node.body : node.alternate, scope);
  }

  override evaluateTernaryExpression(node: Parameters<BaseTernary>[0], scope: Environment): Value {
    return this.evaluate(isTrue(this.evaluate(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope);
  }

  override evaluateSelectExpression(node: SelectNode, scope: Environment): Value {
    return isTrue(this.evaluate(node.test, scope)) ? this.evaluate(node.lhs, scope) : UNDEFINED;
  }

  override applyFilter(operand: Value, filter: FilterNode, scope: Environment): Value {
    const name = filter.value ?? filter.callee?.value ?? "";
    const [args, named] = filter.args === undefined ? [[], new Map()] : this.evaluateArguments(filter.args, scope);
    return applyPythonFilter(operand, { name, args, named }) ?? super.applyFilter(operand, filter, scope);
  }
}

type BaseIf = InstanceType<typeof BaseInterpreter>["evaluateIf"];
type BaseTernary = InstanceType<typeof BaseInterpreter>["evaluateTernaryExpression"];

function held(value: Value): HeldNode {
  return { type: "Held", held: value };
}

function isLoopEnd(error: unknown): error is Error & { written?: string } {
  return error instanceof Error && Object.values(LOOP_ENDS).includes(error.constructor);
}

function bind(scope: Environment, target: Node, value: Value): void {
  if (target.type === "Identifier") {
    scope.setVariable((target as Node & { value: string }).value, value);
    return;
  }
  const names = (target as NamesNode).value;
  const items = iterate(value);
  if (names.length !== items.length) throw new PythonTypeError(`${items.length} values for ${names.length} names`);
  for (const [index, name] of names.entries()) bind(scope, name, items[index] ?? UNDEFINED);
}

function iterate(value: Value): Value[] {
  if (isList(value)) return value.value;
  if (isDict(value)) return keysOf(value);
  if (isText(value)) return Array.from(value.value, text);
  if (isUndefined(value)) return [];
  throw new PythonTypeError(`a ${value.type} is not iterable`);
}

function loopValue(items: readonly Value[], index: number): Value {
  return dict(
    new Map([
      ["index", integer(index + 1)],
      ["index0", integer(index)],
      ["revindex", integer(items.length - index)],
      ["revindex0", integer(items.length - index - 1)],
      ["first", boolean(index === 0)],
      ["last", boolean(index === items.length - 1)],
      ["length", integer(items.length)],
      ["previtem", items[index - 1] ?? UNDEFINED],
      ["nextitem", items[index + 1] ?? UNDEFINED],
    ]),
  );
}

function contains(whole: Value, part: Value): boolean {
  if (isList(whole)) return whole.value.some((item) => areEqual(item, part));
  if (isDict(whole)) return isText(part) && whole.value.has(part.value);
  if (isUndefined(whole)) return false;
  if (isText(whole) && isText(part)) return whole.value.includes(part.value);
  throw new PythonTypeError(`a ${whole.type} holds no ${part.type}`);
}

function dictMethod(members: ReadonlyMap<string, Value>, name: string): Value {
  return callable(([key, other]) => {
    if (name === "items") return list(Array.from(members, ([member, value]) => list([text(member), value])));
    if (name === "keys") return list(Array.from(members.keys(), text));
    if (name === "values") return list([...members.values()]);
    return (key !== undefined && isText(key) ? members.get(key.value) : undefined) ?? other ?? NONE;
  });
}

/** Tests that the engine answers otherwise than Python; null for all others. */
function test(name: string, value: Value): boolean | null {
  if (name === "iterable") return isList(value) || isDict(value) || isText(value) || isUndefined(value);
  if (name === "number") return isNumber(value);
  if (name === "integer") return value.type === "IntegerValue";
  if (name === "float") return value.type === "FloatValue";
  if (name === "sequence") return isList(value) || isDict(value) || isText(value);
  return null;
}
