import { Environment, Interpreter, parse, tokenize } from "@huggingface/jinja";
import type { Value } from "./values.ts";

/** A node of a parsed template; the engine exports no types of them. */
export interface Node {
  type: string;
}

export interface ForNode extends Node {
  loopvar: Node;
  iterable: Node;
  body: Node[];
  defaultBlock: Node[];
}

export interface SelectNode extends Node {
  lhs: Node;
  test: Node;
}

export interface NamesNode extends Node {
  value: (Node & { value: string })[];
}

export interface FilterNode extends Node {
  /** Of an identifier. */
  value?: string;
  /** Of a call. */
  callee?: Node & { value: string };
  args?: Node[];
}

export interface MemberNode extends Node {
  object: Node;
  property: Node & { value: unknown };
  computed: boolean;
}

export interface BinaryNode extends Node {
  left: Node;
  right: Node;
  operator: { value: string };
}

export interface UnaryNode extends Node {
  operator: { value: string };
  argument: Node;
}

export interface TestNode extends Node {
  operand: Node;
  negate: boolean;
  test: Node & { value: string };
}

export interface MacroNode extends Node {
  name: Node & { value: string };
}

/** A value in the place of an expression, so that what is already known is not evaluated again. */
export interface HeldNode extends Node {
  type: "Held";
  held: Value;
}

/** The engine's interpreter with the methods that are private in its types; these are what is done otherwise here. */
export interface OpenInterpreter {
  evaluate(node: Node | undefined, scope: Environment): Value;
  evaluateBlock(nodes: readonly Node[], scope: Environment): Value;
  evaluateFor(node: ForNode, scope: Environment): Value;
  evaluateMacro(node: MacroNode, scope: Environment): Value;
  evaluateBinaryExpression(node: BinaryNode, scope: Environment): Value;
  evaluateUnaryExpression(node: UnaryNode, scope: Environment): Value;
  evaluateMemberExpression(node: MemberNode, scope: Environment): Value;
  evaluateTestExpression(node: TestNode, scope: Environment): Value;
  evaluateIf(node: Node & { test: Node; body: Node[]; alternate: Node[] }, scope: Environment): Value;
  evaluateTernaryExpression(
    node: Node & { condition: Node; trueExpr: Node; falseExpr: Node },
    scope: Environment,
  ): Value;
  evaluateSelectExpression(node: SelectNode, scope: Environment): Value;
  evaluateArguments(nodes: readonly Node[], scope: Environment): [Value[], Map<string, Value>];
  applyFilter(operand: Value, filter: FilterNode, scope: Environment): Value;
}

export const BaseInterpreter = Interpreter as unknown as new (scope: Environment) => OpenInterpreter;

/** A template as a tree. Throws when its syntax is not known. */
export function parseTemplate(template: string): Node {
  return parse(tokenize(template, { lstrip_blocks: true, trim_blocks: true }));
}

/** What the engine throws at `break` and `continue`; its classes are not exported. */
export const LOOP_ENDS = { break: thrownBy("{% break %}"), continue: thrownBy("{% continue %}") } as const;

function thrownBy(template: string): unknown {
  try {
    new BaseInterpreter(new Environment()).evaluate(parseTemplate(template), new Environment());
  } catch (error) {
    return error instanceof Error ? error.constructor : null;
  }
  return null;
}
