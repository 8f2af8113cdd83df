import { TOKEN_LIMITS } from "../../limits.ts";
import type { ToolCall } from "../../trajectory/message.ts";
import { memberText } from "./json-member.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

/** A call as it was read, or what is wrong with it, said for the model: `is not JSON; write ...`. */
export type ReadCall = { name: string; arguments: string; id?: string } | string;

/** The turn with these calls; an answer when there are none, malformed when there are too many or one is wrong. */
export function turnOfCalls(
  turn: SampledTurn,
  written: readonly ReadCall[],
  around: { content: string; reasoning: string | null },
): ParsedTurn {
  const { content, reasoning } = around;
  if (written.length === 0) return { kind: "answer", content, reasoning };
  if (written.length > TOKEN_LIMITS.callsPerTurnMax) {
    return { kind: "malformed", content, problem: `more than ${TOKEN_LIMITS.callsPerTurnMax} tool calls in one turn` };
  }
  const calls: ToolCall[] = [];
  for (const [index, read] of written.entries()) {
    if (typeof read === "string") {
      const which = written.length === 1 ? "the tool call" : `tool call ${index + 1}`;
      return { kind: "malformed", content, problem: `${which} ${read}` };
    }
    const own = read.id !== undefined && calls.every((call) => call.id !== read.id) ? read.id : null;
    const id = own ?? `call_${turn.nextCallNumber + index}`;
    calls.push({ id, name: read.name, arguments: read.arguments });
  }
  return { kind: "calls", calls, content, reasoning };
}

/** A call written as a JSON object with its name and, under the first of `keys` that it has, its arguments. */
export function readJsonCall(text: string, keys: readonly string[], expected: string): ReadCall {
  const value = readObject(text, expected);
  if (typeof value === "string") return value;
  const name: unknown = Reflect.get(value, "name");
  if (typeof name !== "string" || name === "") return `has no "name"; write ${expected}`;
  const key = keys.find((member) => Object.hasOwn(value, member));
  if (key === undefined) return { name, arguments: "{}" };
  const args: unknown = Reflect.get(value, key);
  // Some models write the arguments as a string that holds the JSON.
  if (typeof args === "string") return { name, arguments: args };
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    return `has "${key}" that are no object; write ${expected}`;
  }
  return { name, arguments: memberText(text, key) ?? JSON.stringify(args) };
}

/** Arguments written alone, as their text, and what is wrong when they are no JSON object. */
export function readArguments(text: string, expected: string): { text: string; problem: string | null } {
  const value = readObject(text, expected);
  return { text: text.trim(), problem: typeof value === "string" ? value : null };
}

function readObject(text: string, expected: string): object | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `is not JSON (${error instanceof Error ? error.message : "unreadable"}); write ${expected}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `is no object; write ${expected}`;
  return value;
}
