import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { RolloutError } from "../../src/errors.ts";
import { type Json, JsonNumber, parseJson } from "../../src/tokens/jinja/json.ts";
import { createLocalRenderers, type LocalRenderer } from "../../src/tokens/local-renderers.ts";
import { parseTurn } from "../../src/tokens/tool-formats/parse.ts";
import { recogniseToolFormat } from "../../src/tokens/tool-formats/recognise.ts";
import type { ToolSchema } from "../../src/trajectory/message.ts";
import { CONVERSATIONS, type Conversation } from "./parity/conversations.ts";
import { deltaSteps, shownTurn } from "./parity/deltas.ts";
import { FAMILIES, type Family, type FamilyFolder, familyFolder } from "./parity/families.ts";
import { type Answer, openReference } from "./parity/reference.ts";
import { referenceMessages, referenceTools } from "./parity/wire.ts";

// The first run installs Python's packages, which takes a minute; a reading of all tokenizers takes 20 s.
setDefaultTimeout(600_000);

const renderers = createLocalRenderers();
const folders: FamilyFolder[] = [];
/** What Python renders, by family and conversation. */
let expected: Answer[][] = [];

beforeAll(async () => {
  const reference = await openReference();
  for (const family of FAMILIES) folders.push(await familyFolder(family, reference));
  expected = await reference.render(
    FAMILIES.map((family, index) => ({
      folder: folders[index]?.path ?? "",
      variables: JSON.stringify(family.variables ?? {}),
      cells: CONVERSATIONS.map(({ messages, tools }) => ({
        messages: referenceMessages(messages, family),
        tools: referenceTools(tools),
      })),
    })),
  );
});

afterAll(async () => {
  await renderers[Symbol.asyncDispose]();
  for (const folder of folders) await folder[Symbol.asyncDispose]();
});

type Cell = "equal" | "refused by both" | `served by backend: ${string}` | `differs: ${string}`;

async function cellOf(renderer: LocalRenderer, conversation: Conversation, answer: Answer): Promise<Cell> {
  let ids: readonly number[];
  try {
    ids = [...(await renderer.renderPrompt(conversation.messages, conversation.tools)).ids];
  } catch (error) {
    if (!(error instanceof RolloutError)) throw error;
    if (error.reason === "backend_invalid") return `served by backend: ${error.detail}`;
    return "refused" in answer ? "refused by both" : `differs: refused here only, ${error.detail}`;
  }
  if ("refused" in answer) return `differs: Python refuses, ${answer.refused}`;
  const at = Array.from({ length: Math.max(ids.length, answer.ids.length) }).findIndex(
    (_, i) => ids[i] !== answer.ids[i],
  );
  return at < 0 ? "equal" : `differs: id ${at} is ${ids[at]} here and ${answer.ids[at]} in Python`;
}

describe("the parity matrix", () => {
  test("has 40 conversations or more, each with its own name", () => {
    expect(CONVERSATIONS.length).toBeGreaterThanOrEqual(40);
    expect(new Set(CONVERSATIONS.map(({ name }) => name)).size).toBe(CONVERSATIONS.length);
  });

  test("is not equal by refusal: Python renders nine tenths of it and more", () => {
    const cells = expected.flat();
    expect(cells.length).toBe(FAMILIES.length * CONVERSATIONS.length);
    expect(cells.filter((cell) => "ids" in cell).length).toBeGreaterThan(cells.length * 0.9);
  });
});

describe.each(FAMILIES.map((family, index) => [family.name, family, index] as const))("%s", (_name, family, index) => {
  const open = () => renderers.open(folders[index]?.path ?? "");

  test("renders every conversation as Python does, or says why its server must", async () => {
    const renderer = await open();
    const cells: Record<string, Cell> = {};
    for (const [at, conversation] of CONVERSATIONS.entries()) {
      cells[conversation.name] = await cellOf(
        renderer,
        conversation,
        expected[index]?.[at] ?? { refused: "no answer" },
      );
    }
    expect(Object.entries(cells).filter(([, cell]) => cell.startsWith("differs"))).toEqual([]);
    const served = Object.values(cells).filter((cell) => cell.startsWith("served"));
    // Today's templates are all understood; one that is not has its reason here.
    expect(served).toEqual([]);
  });

  test("builds every conversation by deltas as it renders the whole, turn by turn", async () => {
    expect(await wrongSteps(await open(), family)).toEqual([]);
  });

  test("has the calls read back that its template writes", async () => {
    const renderer = await open();
    const rounds = CONVERSATIONS.filter(({ name }) => name.startsWith("a call with ") && name !== "a call with floats");
    expect(rounds.length).toBeGreaterThanOrEqual(7);
    for (const { name, messages } of rounds) {
      const args = messages[1]?.toolCalls?.[0]?.arguments ?? "";
      const tools = [toolFor(args)];
      const ids = await shownTurn(renderer, { name, messages, tools });
      const text = await renderer.decode(ids, false);
      const parsed = await parseTurn(family.format, { ids, text, renderer, nextCallNumber: 1, tools });
      const calls =
        parsed.kind === "calls" ? parsed.calls.map((call) => [call.name, parseJson(call.arguments)]) : parsed;
      const expected = family.writesCalls === false ? { kind: "answer" } : [["probe", sameInPython(parseJson(args))]];
      expect([name, calls]).toMatchObject([name, expected]);
    }
  });

  test("is recognised by its template: the form of calls and the ends of turns", async () => {
    const renderer = await open();
    const ends = await Promise.all(renderer.endIds.map((id) => renderer.decode(Int32Array.of(id), true)));
    expect({ format: await recogniseToolFormat(renderer), ends }).toEqual({
      format: family.format,
      ends: [...family.endTokens],
    });
  });
});

/** A tool whose schema names the types of these arguments: XML has no other way to tell them. */
function toolFor(args: string): ToolSchema {
  const typeOf = (value: Json) => {
    if (value instanceof JsonNumber) return "integer";
    if (value instanceof Map) return "object";
    return Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  };
  const value = parseJson(args);
  const members = value instanceof Map ? Array.from(value, ([key, member]) => [key, { type: typeOf(member) }]) : [];
  const parameters = { type: "object", properties: Object.fromEntries(members) };
  return { name: "probe", description: "Looks.", parameters };
}

/** Templates print numbers anew: 2.50 comes out as 2.5 and -0 as 0. */
function sameInPython(value: Json): Json {
  if (value instanceof JsonNumber) return new JsonNumber({ "2.50": "2.5", "-0": "0" }[value.text] ?? value.text);
  if (value instanceof Map) return new Map(Array.from(value, ([key, member]) => [key, sameInPython(member)]));
  return Array.isArray(value) ? value.map(sameInPython) : value;
}

/** Steps that are not as the family's row says. */
async function wrongSteps(renderer: LocalRenderer, family: Family): Promise<string[]> {
  const wrong: string[] = [];
  let steps = 0;
  const unused = new Set(Object.keys(family.rewrites ?? {}));
  for (const conversation of CONVERSATIONS) {
    const { name } = conversation;
    const found = await deltaSteps(renderer, conversation).catch((error: unknown) => {
      if (error instanceof RolloutError && error.reason === "task_invalid") return [];
      throw error;
    });
    steps += found.length;
    const isNamed = family.rewrites?.[name] !== undefined;
    const off = found.filter((step) => !step.isTail || step.rewritten > (family.opening ?? 0));
    if (isNamed && off.length > 0) unused.delete(name);
    if (!isNamed && off.length > 0) wrong.push(`${name}: ${JSON.stringify(off)}`);
  }
  if (steps < CONVERSATIONS.length / 2) wrong.push(`only ${steps} steps were compared`);
  for (const name of unused) wrong.push(`${name}: rewritten no more`);
  return wrong;
}
