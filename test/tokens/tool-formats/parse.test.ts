import { describe, expect, test } from "bun:test";
import { createScriptedSource, decodeScripted, encodeScripted } from "../../../src/llm/engines/scripted-source.ts";
import type { Renderer } from "../../../src/tokens/renderer.ts";
import { TemplateRenderer } from "../../../src/tokens/template-renderer.ts";
import { parseTurn, type ToolFormat } from "../../../src/tokens/tool-formats/parse.ts";

const withMarkers = new TemplateRenderer(createScriptedSource());

/** A tokenizer like SmolLM2's, which has no marker as a token. */
const plain: Renderer = {
  kind: "local",
  tokenizerHash: "",
  templateHash: "",
  endIds: [257],
  renderPrompt: (messages, tools) => withMarkers.renderPrompt(messages, tools),
  renderDelta: (added, tools, ended) => withMarkers.renderDelta(added, tools, ended),
  decode: (ids, keepSpecial) => withMarkers.decode(ids, keepSpecial),
  markerId: () => null,
};

function parse(format: ToolFormat, text: string, options: { renderer?: Renderer; ids?: readonly number[] } = {}) {
  const renderer = options.renderer ?? withMarkers;
  const ids = Int32Array.from(options.ids ?? encodeScripted(text).ids);
  const shown = renderer === plain ? text : decodeScripted([...ids], false);
  return parseTurn(format, { ids, text: shown, renderer, nextCallNumber: 3 });
}

const CALL = '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}\n</tool_call>';
const call = (id: string, name = "bash", args = '{"command": "ls"}') => ({ id, name, arguments: args });

describe.each([
  ["with marker tokens", withMarkers],
  ["with markers as text", plain],
] as const)("parseTurn of hermes %s", (_what, renderer) => {
  test.each<[string, string, unknown]>([
    ["one call", CALL, { kind: "calls", calls: [call("call_3")], content: "", reasoning: null }],
    ["text around a call", `Let me see.${CALL}\n`, { kind: "calls", calls: [call("call_3")], content: "Let me see." }],
    ["several calls", `${CALL}\n${CALL}`, { kind: "calls", calls: [call("call_3"), call("call_4")] }],
    ["a close that is missing at the end", CALL.slice(0, -12), { kind: "calls", calls: [call("call_3")] }],
    ["no call", "It is 4.", { kind: "answer", content: "It is 4.", reasoning: null }],
    [
      "arguments as they were written",
      '<tool_call>{"name":"f","arguments":{"b":1.0, "a" : true}}</tool_call>',
      {
        kind: "calls",
        calls: [call("call_3", "f", '{"b":1.0, "a" : true}')],
      },
    ],
    [
      "arguments written as a string",
      '<tool_call>{"name":"f","arguments":"{\\"a\\":1}"}</tool_call>',
      {
        kind: "calls",
        calls: [call("call_3", "f", '{"a":1}')],
      },
    ],
    ["a call without arguments", '<tool_call>{"name":"f"}</tool_call>', { calls: [call("call_3", "f", "{}")] }],
    ["broken JSON", "<tool_call>{'name': 'f'}</tool_call>", { kind: "malformed" }],
    ["a call cut in its JSON", '<tool_call>{"name": "f", "argum', { kind: "malformed" }],
    ["an empty call", "<tool_call></tool_call>", { kind: "malformed" }],
    ["a list for a call", "<tool_call>[1]</tool_call>", { kind: "malformed" }],
    ["a call without a name", '<tool_call>{"arguments": {}}</tool_call>', { kind: "malformed" }],
    ["arguments that are no object", '<tool_call>{"name": "f", "arguments": 3}</tool_call>', { kind: "malformed" }],
    ["a second call that is broken", `${CALL}<tool_call>x</tool_call>`, { kind: "malformed" }],
    ["far too many calls", CALL.repeat(40), { kind: "malformed" }],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("hermes", text, { renderer })).toMatchObject(expected as object);
  });
});

describe("parseTurn of hermes", () => {
  test("takes a marker spelled in ordinary tokens for text where the tokenizer has marker tokens", async () => {
    const ids = [...Buffer.from(CALL)];
    expect(await parse("hermes", "", { ids })).toEqual({ kind: "answer", content: CALL, reasoning: null });
  });

  test("says what is wrong, so that the model can mend it", async () => {
    const broken = await parse("hermes", `${CALL}<tool_call>{"name": 3}</tool_call>`);
    expect(broken).toMatchObject({ kind: "malformed", problem: expect.stringMatching(/tool call 2 has no "name"/) });
  });

  test("splits reasoning at its token and reads the calls after it only", async () => {
    const text = `<think>maybe ${CALL.replaceAll("tool_call", "x")}</think>${CALL}`;
    expect(await parse("hermes", text)).toMatchObject({
      kind: "calls",
      calls: [call("call_3")],
      reasoning: expect.stringMatching(/maybe/),
    });
  });

  test("finds reasoning that the prompt opened, and reasoning that was cut", async () => {
    expect(await parse("none", "so 4</think>4")).toEqual({ kind: "answer", content: "4", reasoning: "so 4" });
    expect(await parse("none", "<think>so 4")).toEqual({ kind: "answer", content: "", reasoning: "so 4" });
  });
});

describe("parseTurn of fenced", () => {
  const bash = "```bash\nls -l\n```";
  test.each<[string, string, unknown]>([
    ["one block of bash", bash, { kind: "calls", calls: [call("call_3", "bash", '{"command":"ls -l"}')] }],
    [
      "one block of python with text around it",
      `First:\n\n\`\`\`python\nx = 1\nprint(x)\n\`\`\`\nDone.`,
      {
        kind: "calls",
        calls: [call("call_3", "python", '{"code":"x = 1\\nprint(x)"}')],
      },
    ],
    ["no block", "The answer is 4.", { kind: "answer", content: "The answer is 4." }],
    ["a block of another language", "```json\n{}\n```", { kind: "answer" }],
    ["a block of another language beside one of bash", `\`\`\`\nout\n\`\`\`\n${bash}`, { kind: "calls" }],
    ["two blocks", `${bash}\n${bash}`, { kind: "malformed", problem: expect.stringMatching(/2 code blocks/) }],
    ["a block that is not closed", "```bash\nls", { kind: "malformed", problem: expect.stringMatching(/not closed/) }],
    ["an empty block", "```bash\n```", { kind: "calls", calls: [call("call_3", "bash", '{"command":""}')] }],
    ["a fence inside a line", "use ```bash\nls``` here", { kind: "answer" }],
    [
      "a longer fence around a fence",
      "````python\nprint('```')\n```\n````",
      {
        kind: "calls",
        calls: [call("call_3", "python", '{"code":"print(\'```\')\\n```"}')],
      },
    ],
    [
      "windows line ends",
      "```bash\r\nls\r\n```\r\n",
      { kind: "calls", calls: [call("call_3", "bash", '{"command":"ls"}')] },
    ],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("fenced", text, { renderer: plain })).toMatchObject(expected as object);
  });
});

describe("parseTurn of none", () => {
  test("takes everything for the answer", async () => {
    expect(await parse("none", "```bash\nls\n```", { renderer: plain })).toMatchObject({ kind: "answer" });
  });
});
