import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { ensureModel } from "../../scripts/setup/model.ts";
import { ChatTemplate, isRefusal } from "../../src/tokens/jinja/chat-template.ts";
import { type Json, parseJson } from "../../src/tokens/jinja/json.ts";
import { CONVERSATIONS } from "./parity/conversations.ts";
import type { Family } from "./parity/families.ts";
import { type Answer, openReference } from "./parity/reference.ts";
import { referenceMessages, referenceTools } from "./parity/wire.ts";

// A hundred templates are rendered twice; the first run installs Python's packages.
setDefaultTimeout(600_000);

/** Templates in which Python refuses some messages that are rendered here, with what it refuses. */
const LOOSER: Readonly<Record<string, string>> = {
  "llama.cpp/llama-cpp-deepseek-r1.jinja": "a lazy list handed to tojson",
};

const FAMILY: Family = { name: "any", tokenizer: null, template: null, callIds: "nine", format: "none", endTokens: [] };
const CELLS = CONVERSATIONS.map(({ messages, tools }) => ({
  messages: referenceMessages(messages, FAMILY),
  tools: referenceTools(tools),
}));

const made: string[] = [];
let templates: { name: string; text: string }[] = [];
let expected: Answer[][] = [];

beforeAll(async () => {
  const reference = await openReference();
  const { tokenizer } = await ensureModel(cacheDir(), () => {});
  templates = await Promise.all(
    reference.templates().map(async (name) => ({ name, text: await reference.template(name) })),
  );
  for (const { text } of templates) {
    const folder = await mkdtemp(join(tmpdir(), "rolloutd-template-"));
    made.push(folder);
    await symlink(join(tokenizer, "tokenizer.json"), join(folder, "tokenizer.json"));
    await Bun.write(join(folder, "tokenizer_config.json"), '{"bos_token": "<s>", "eos_token": "</s>"}');
    await Bun.write(join(folder, "chat_template.jinja"), text);
  }
  expected = await reference.render(made.map((folder) => ({ folder, variables: "{}", cells: CELLS })));
});

afterAll(async () => {
  for (const folder of made) await rm(folder, { recursive: true });
});

/** `equal`, `refused by both`, or what is otherwise. */
function cellOf(template: ChatTemplate, cell: { messages: string; tools: string }, answer: Answer): string {
  const messages = parseJson(cell.messages);
  const tools = cell.tools === "[]" ? null : parseJson(cell.tools);
  const variables = new Map<string, Json>([
    ["bos_token", "<s>"],
    ["eos_token", "</s>"],
    ["messages", withBothNames(messages)],
    ["tools", tools],
    ["documents", null],
    ["add_generation_prompt", true],
  ]);
  try {
    const text = template.render(variables).toWellFormed();
    if ("refused" in answer) return `differs: Python refuses, ${answer.refused}`;
    return text === answer.text ? "equal" : "differs: another text";
  } catch (error) {
    if (!isRefusal(error)) return "served by backend";
    return "refused" in answer ? "refused by both" : `differs: refused here only, ${String(error)}`;
  }
}

/** Reasoning under both its names, as `templateMessages` and transformers give it. */
function withBothNames(messages: Json): Json {
  if (!Array.isArray(messages)) return messages;
  return messages.map((message) => {
    const reasoning = message instanceof Map ? message.get("reasoning_content") : undefined;
    return message instanceof Map && reasoning !== undefined
      ? new Map([["thinking", reasoning] as const, ...message])
      : message;
  });
}

describe("ChatTemplate", () => {
  test("renders a hundred published templates as Python does, and never otherwise without a word", () => {
    expect(templates.length).toBeGreaterThanOrEqual(100);
    const counts: Record<string, number> = {};
    const wrong: string[] = [];
    for (const [index, { name, text }] of templates.entries()) {
      const template = new ChatTemplate(text.replaceAll("\r\n", "\n"));
      for (const [at, cell] of CELLS.entries()) {
        const found = cellOf(template, cell, expected[index]?.[at] ?? { refused: "no answer" });
        const kind = found.startsWith("differs") && LOOSER[name] !== undefined ? "looser" : found;
        counts[kind] = (counts[kind] ?? 0) + 1;
        if (kind.startsWith("differs")) wrong.push(`${name}, ${CONVERSATIONS[at]?.name}: ${found}`);
      }
    }
    expect(wrong).toEqual([]);
    const all = templates.length * CELLS.length;
    expect(counts.equal ?? 0).toBeGreaterThan(all * 0.85);
    expect(counts["served by backend"] ?? 0).toBeLessThan(all * 0.05);
  });
});
