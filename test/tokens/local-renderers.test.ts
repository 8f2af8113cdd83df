import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createLocalRenderers, type LocalRenderer } from "../../src/tokens/local-renderers.ts";
import type { Rendered } from "../../src/tokens/renderer.ts";
import type { Message } from "../../src/trajectory/message.ts";
import { TEMPLATES, tokenizerFolder } from "../support/tokenizer-folder.ts";

// The real server shares its cores with everything else that runs.
setDefaultTimeout(30_000);

const renderers = createLocalRenderers();
const folders: AsyncDisposable[] = [];
afterAll(async () => {
  await renderers[Symbol.asyncDispose]();
  for (const folder of folders) await folder[Symbol.asyncDispose]();
});

async function rendererOf(template: string | null): Promise<LocalRenderer> {
  const folder = await tokenizerFolder(template);
  folders.push(folder);
  return renderers.open(folder.path);
}

/** The text of each message as its ids say, in order of the messages. */
async function attributed(renderer: LocalRenderer, rendered: Rendered): Promise<Record<number, string>> {
  const texts: Record<number, string> = {};
  for (const index of new Set(rendered.message)) {
    if (index >= 0) {
      const ids = rendered.ids.filter((_id, at) => rendered.message[at] === index);
      texts[index] = await renderer.decode(ids, true);
    }
  }
  expect([...rendered.content]).toEqual([...rendered.message].map((index) => (index < 0 ? 0 : 1)));
  return texts;
}

const CONVERSATION: Message[] = [
  { role: "system", content: "system" },
  { role: "user", content: "im" },
  { role: "assistant", content: "user" },
  { role: "user", content: "naïve 日本語 😀 e\u0301" },
];
const TOOL = { name: "bash", description: "Runs it.", parameters: { type: "object", properties: {} } };

describe.each([
  ["SmolLM2's own", null],
  ["a template in Qwen3's manner", TEMPLATES.qwen3],
] as const)("LocalRenderer with %s template", (_name, template) => {
  let renderer: LocalRenderer;
  beforeAll(async () => {
    renderer = await rendererOf(template);
  });

  test("attributes each id to the message whose content it is, also where contents look like scaffold", async () => {
    const rendered = await renderer.renderPrompt(CONVERSATION, []);
    expect(await attributed(renderer, rendered)).toEqual(
      Object.fromEntries(CONVERSATION.map(({ content }, index) => [index, content])),
    );
  });

  test("renders a delta that a whole rendering would have had at its place", async () => {
    const before: Message[] = [
      { role: "user", content: "Go." },
      { role: "assistant", content: "Done" },
    ];
    const added: Message[] = [{ role: "user", content: "And now 1234?" }];
    const whole = await renderer.renderPrompt([...before, ...added], []);
    const prompt = await renderer.renderPrompt(before.slice(0, 1), []);
    const sampled = [...(await renderer.encode("Done")), renderer.endIds[0] ?? -1];
    const delta = await renderer.renderDelta(added, [], true);
    expect([...prompt.ids, ...sampled, ...delta.ids]).toEqual([...whole.ids]);
    expect(await attributed(renderer, delta)).toEqual({ 0: "And now 1234?" });
  });

  test("begins the delta of a cut turn with the end token", async () => {
    const added: Message[] = [{ role: "user", content: "Go on." }];
    const ended = await renderer.renderDelta(added, [], true);
    const cut = await renderer.renderDelta(added, [], false);
    expect([...cut.ids]).toEqual([renderer.endIds[0] ?? -1, ...ended.ids]);
  });

  test("renders the answers of several tools with their texts attributed", async () => {
    const added: Message[] = [
      { role: "tool", content: "1\n", toolCallId: "call_1", name: "bash" },
      { role: "tool", content: "<|im_end|> in a text", toolCallId: "call_2", name: "bash" },
    ];
    const delta = await renderer.renderDelta(added, [TOOL], true);
    const texts = await attributed(renderer, delta);
    expect(texts[0]?.trim()).toBe("1");
    expect(texts[1]).toBe("<|im_end|> in a text");
  });

  test("gives siblings one rendering, and equal ids when it is made anew", async () => {
    const first = await renderer.renderPrompt(CONVERSATION, [TOOL]);
    const again = await renderer.renderPrompt([...CONVERSATION], [TOOL]);
    expect(again.ids).toEqual(first.ids);
  });
});

describe("LocalRenderer", () => {
  test("takes the token that the template puts behind a turn for its end, before the config's eos_token", async () => {
    const renderer = await rendererOf(TEMPLATES.strict);
    expect([...renderer.endIds]).toEqual([0, 2]);
    const delta = await renderer.renderDelta([{ role: "user", content: "b" }], [], true);
    expect(await renderer.decode(delta.ids, true)).toBe(
      "<|im_start|>user: b<|im_start|>assistant: ".replace("b<", "b<|endoftext|><"),
    );
  });

  test("rejects with task_invalid when the template refuses the messages, and goes on working", async () => {
    const renderer = await rendererOf(TEMPLATES.strict);
    const refused = renderer.renderPrompt([{ role: "system", content: "x" }], []).catch((error: unknown) => error);
    expect(await refused).toMatchObject({
      reason: "task_invalid",
      detail: expect.stringMatching(/only user and assistant/),
    });
    expect((await renderer.renderPrompt([{ role: "user", content: "x" }], [])).ids.length).toBeGreaterThan(0);
  });

  test("treats a lone surrogate as the replacement character", async () => {
    const renderer = await rendererOf(null);
    const lone = await renderer.renderPrompt([{ role: "user", content: "a\ud83d b" }], []);
    const replaced = await renderer.renderPrompt([{ role: "user", content: "a\ufffd b" }], []);
    expect(lone.ids).toEqual(replaced.ids);
    expect(lone.message).toEqual(replaced.message);
  });

  test("renders a template with carriage returns as one without", async () => {
    const unix = await rendererOf(TEMPLATES.qwen3);
    const windows = await rendererOf(TEMPLATES.qwen3.replaceAll("\n", "\r\n"));
    expect((await windows.renderPrompt(CONVERSATION, [])).ids).toEqual((await unix.renderPrompt(CONVERSATION, [])).ids);
  });

  test("has no marker that is not a token, and knows those that are", async () => {
    const renderer = await rendererOf(null);
    expect(renderer.markerId("<tool_call>")).toBeNull();
    expect(renderer.markerId("<|im_end|>")).toBe(2);
  });

  test("rejects a folder without a tokenizer with the file that is missing, and opens it once it is there", async () => {
    const folder = await tokenizerFolder(null);
    folders.push(folder);
    const text = await Bun.file(`${folder.path}/tokenizer.json`).text();
    await Bun.file(`${folder.path}/tokenizer.json`).delete();
    const error = await renderers.open(folder.path).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid", detail: expect.stringMatching(/tokenizer\.json/) });
    await Bun.write(`${folder.path}/tokenizer.json`, text);
    expect((await renderers.open(folder.path)).endIds).toEqual([2]);
  });

  test("rejects calls under way and later ones when it is closed", async () => {
    const own = createLocalRenderers();
    const folder = await tokenizerFolder(null);
    folders.push(folder);
    const opening = own.open(folder.path).catch((thrown: unknown) => thrown);
    await own[Symbol.asyncDispose]();
    expect(await opening).toMatchObject({ reason: "backend_invalid" });
    expect(await own.open(folder.path).catch((thrown: unknown) => thrown)).toMatchObject({ reason: "backend_invalid" });
  });
});
