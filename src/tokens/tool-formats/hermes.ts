import { TOKEN_LIMITS } from "../../limits.ts";
import type { ToolCall } from "../../trajectory/message.ts";
import { memberText } from "./json-member.ts";
import type { ParsedTurn, SampledTurn } from "./parse.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const EXPECTED = `{"name": "...", "arguments": {...}}`;

/**
 * Calls as `<tool_call>{"name", "arguments"}</tool_call>`, any number of them; the last close may be missing. Where
 * the tokenizer has the markers as tokens only those count: a marker spelled out in ordinary text is text.
 */
export async function parseHermes(turn: SampledTurn, reasoning: string | null): Promise<ParsedTurn> {
  const parts = await split(turn);
  const content = parts
    .filter((part) => !part.call)
    .map((part) => part.text.trim())
    .filter((text) => text !== "")
    .join("\n");
  const written = parts.filter((part) => part.call);
  if (written.length === 0) return { kind: "answer", content, reasoning };
  if (written.length > TOKEN_LIMITS.callsPerTurnMax) {
    return { kind: "malformed", content, problem: `more than ${TOKEN_LIMITS.callsPerTurnMax} tool calls in one turn` };
  }
  const calls: ToolCall[] = [];
  for (const [index, { text }] of written.entries()) {
    const read = readCall(text);
    if (typeof read === "string") {
      const which = written.length === 1 ? "the tool call" : `tool call ${index + 1}`;
      return { kind: "malformed", content, problem: `${which} ${read}` };
    }
    calls.push({ id: `call_${turn.nextCallNumber + index}`, ...read });
  }
  return { kind: "calls", calls, content, reasoning };
}

interface Part {
  call: boolean;
  text: string;
}

function split(turn: SampledTurn): Promise<Part[]> | Part[] {
  const open = turn.renderer.markerId(OPEN);
  const close = turn.renderer.markerId(CLOSE);
  if (open === null || close === null) return splitText(turn.text);
  const parts: { call: boolean; ids: number[] }[] = [{ call: false, ids: [] }];
  for (const id of turn.ids) {
    if (id === open) parts.push({ call: true, ids: [] });
    else if (id === close) parts.push({ call: false, ids: [] });
    else parts.at(-1)?.ids.push(id);
  }
  return Promise.all(
    parts.map(async ({ call, ids }) => ({ call, text: await turn.renderer.decode(Int32Array.from(ids), false) })),
  );
}

function splitText(text: string): Part[] {
  const parts: Part[] = [];
  let call = false;
  for (const piece of text.split(/(<\/?tool_call>)/)) {
    if (piece === OPEN || piece === CLOSE) call = piece === OPEN;
    else parts.push({ call, text: piece });
  }
  return parts;
}

/** The call, or what is wrong with it. */
function readCall(text: string): Omit<ToolCall, "id"> | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `is not JSON (${error instanceof Error ? error.message : "unreadable"}); write ${EXPECTED}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return `is no object; write ${EXPECTED}`;
  const name: unknown = Reflect.get(value, "name");
  if (typeof name !== "string" || name === "") return `has no "name"; write ${EXPECTED}`;
  const args: unknown = Reflect.get(value, "arguments");
  // Some models write the arguments as a string that holds the JSON.
  if (typeof args === "string") return { name, arguments: args };
  if (args === undefined) return { name, arguments: "{}" };
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    return `has "arguments" that are no object; write ${EXPECTED}`;
  }
  return { name, arguments: memberText(text, "arguments") ?? JSON.stringify(args) };
}
