import { describe, expect, test } from "bun:test";
import { createScriptedSource, decodeScripted, encodeScripted } from "../../../src/llm/engines/scripted-source.ts";
import type { Renderer } from "../../../src/tokens/renderer.ts";
import { TemplateRenderer } from "../../../src/tokens/template-renderer.ts";
import { type ParsedTurn, parseTurn, TOOL_FORMATS, type ToolFormat } from "../../../src/tokens/tool-formats/parse.ts";
import type { ToolSchema } from "../../../src/trajectory/message.ts";

/** Every marker of every family is one token here; all else is bytes. */
const withMarkers = new TemplateRenderer(createScriptedSource());
/** A tokenizer that has no marker as a token. */
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

const TOOLS: readonly ToolSchema[] = [
  {
    name: "f",
    description: "",
    parameters: {
      type: "object",
      properties: {
        text: { type: "string" },
        count: { type: "integer" },
        ratio: { type: "number" },
        flag: { type: "boolean" },
        list: { type: "array" },
        object: { type: "object" },
        maybe: { type: ["string", "null"] },
        either: { anyOf: [{ type: "integer" }, { type: "string" }] },
      },
    },
  },
];

function parseIds(format: ToolFormat, ids: readonly number[]): Promise<ParsedTurn> {
  const turn = { text: decodeScripted(ids, false), renderer: withMarkers, nextCallNumber: 3, tools: TOOLS };
  return parseTurn(format, { ...turn, ids: Int32Array.from(ids) });
}

const parse = (format: ToolFormat, text: string) => parseIds(format, encodeScripted(text).ids);
/** The same text without one marker token: what a model gets that spells markers out. */
const parseSpelled = (format: ToolFormat, text: string) => parseIds(format, [...Buffer.from(text)]);

const call = (args: string, id = "call_3", name = "f") => ({ id, name, arguments: args });
const calls = (...list: ReturnType<typeof call>[]) => ({ kind: "calls", calls: list });
const malformed = (problem: RegExp) => ({ kind: "malformed", problem: expect.stringMatching(problem) });

type Row = readonly [string, string, object];

const xml = (...parameters: readonly (readonly [string, string])[]) =>
  `<tool_call>\n<function=f>\n${parameters.map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`).join("")}</function>\n</tool_call>`;

describe("parseTurn of qwen3_coder", () => {
  test.each<Row>([
    ["one call", xml(["text", "ls -la"]), calls(call('{"text": "ls -la"}'))],
    ["a call without parameters", xml(), calls(call("{}"))],
    ["text before a call", `I look.\n${xml(["text", "x"])}`, { ...calls(call('{"text": "x"}')), content: "I look." }],
    [
      "several calls",
      `${xml(["text", "a"])}\n${xml(["text", "b"])}`,
      calls(call('{"text": "a"}'), call('{"text": "b"}', "call_4")),
    ],
    [
      "numbers with their text",
      xml(["count", "9007199254740993"], ["ratio", "1.50"]),
      calls(call('{"count": 9007199254740993, "ratio": 1.50}')),
    ],
    ["an integer for a number", xml(["ratio", "2"]), calls(call('{"ratio": 2}'))],
    ["truth values of either language", xml(["flag", "True"]), calls(call('{"flag": true}'))],
    ["null where it is allowed", xml(["maybe", "null"]), calls(call('{"maybe": null}'))],
    ["a text that looks like null where it is not", xml(["text", "null"]), calls(call('{"text": "null"}'))],
    ["a text that looks like a number", xml(["text", "007"]), calls(call('{"text": "007"}'))],
    [
      "nested values with their text",
      xml(["list", '[1, {"a": 2.0}]'], ["object", '{"b":true}']),
      calls(call('{"list": [1, {"a": 2.0}], "object": {"b":true}}')),
    ],
    ["a union", xml(["either", "12"]), calls(call('{"either": 12}'))],
    ["the text of a union", xml(["either", "twelve"]), calls(call('{"either": "twelve"}'))],
    ["a value that does not fit its type", xml(["count", "many"]), calls(call('{"count": "many"}'))],
    ["a parameter that no schema knows", xml(["other", "1"]), calls(call('{"other": "1"}'))],
    [
      "lines, quotes and unicode",
      xml(["text", 'a\n\n "b"\t日本 😀 ']),
      calls(call('{"text": "a\\n\\n \\"b\\"\\t日本 😀 "}')),
    ],
    [
      "closing tags within a text",
      xml(["text", "x </parameter> y"], ["flag", "false"]),
      calls(call('{"text": "x </parameter> y", "flag": false}')),
    ],
    ["an empty value", xml(["text", ""]), calls(call('{"text": ""}'))],
    ["a last close that is missing", xml(["text", "x"]).replace("\n</tool_call>", ""), calls(call('{"text": "x"}'))],
    ["a call cut in its value", "<tool_call>\n<function=f>\n<parameter=text>\nls", malformed(/not closed/)],
    [
      "a parameter that is not closed",
      "<tool_call><function=f><parameter=text>ls</function></tool_call>",
      malformed(/does not close its parameter text/),
    ],
    ["JSON where XML is wanted", '<tool_call>{"name": "f"}</tool_call>', malformed(/no function/)],
    [
      "text between parameters",
      "<tool_call><function=f>x<parameter=text>y</parameter></function></tool_call>",
      malformed(/outside/),
    ],
    ["an empty call", "<tool_call></tool_call>", malformed(/no function/)],
    ["no call", "It is 4.", { kind: "answer", content: "It is 4." }],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("qwen3_coder", text)).toMatchObject(expected);
  });
});

describe("parseTurn of llama3_json", () => {
  const one = '{"name": "f", "parameters": {"text": "ls"}}';
  test.each<Row>([
    ["one call", one, calls(call('{"text": "ls"}'))],
    ["a call behind its marker", `<|python_tag|>${one}`, calls(call('{"text": "ls"}'))],
    ["text before the marker", `I look.<|python_tag|>${one}`, { ...calls(call('{"text": "ls"}')), content: "I look." }],
    [
      "several calls",
      `${one}; ${one}\n${one}`,
      calls(call('{"text": "ls"}'), call('{"text": "ls"}', "call_4"), call('{"text": "ls"}', "call_5")),
    ],
    ["arguments under that name", '{"name": "f", "arguments": {"a": 1.0}}', calls(call('{"a": 1.0}'))],
    [
      "arguments with their text",
      '{"name":"f","parameters":{"b" :9007199254740993, "a":{"c":[]}}}',
      calls(call('{"b" :9007199254740993, "a":{"c":[]}}')),
    ],
    [
      "unicode",
      '{"name": "f", "parameters": {"text": "日本 😀 \\u00e9 }{"}}',
      calls(call('{"text": "日本 😀 \\u00e9 }{"}')),
    ],
    ["a type beside the name", '{"type": "function", "name": "f", "parameters": {}}', calls(call("{}"))],
    ["a call cut in its JSON", '{"name": "f", "parameters": {"text": "l', malformed(/not JSON/)],
    ["broken JSON", '{"name": "f", "parameters": {text: 1}}', malformed(/not JSON/)],
    ["parameters that are no object", '{"name": "f", "parameters": [1]}', malformed(/no object/)],
    ["a second call that is broken", `${one}; {"name": "f", "parameters": {`, malformed(/tool call 2 is not JSON/)],
    ["text behind a call", `${one} and so on`, malformed(/tool call 2 has text after it/)],
    ["something else behind the marker", "<|python_tag|>print(1)", malformed(/no call/)],
    ["JSON that is an answer", '{"name": "Ann", "age": 3}', { kind: "answer" }],
    ["other JSON", '{"a": 1}', { kind: "answer" }],
    ["prose that shows a call", `Write ${one} to look.`, { kind: "answer", content: `Write ${one} to look.` }],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("llama3_json", text)).toMatchObject(expected);
  });
});

describe("parseTurn of mistral", () => {
  const one = '{"name": "f", "arguments": {"text": "ls"}, "id": "aB3dE6gH9"}';
  test.each<Row>([
    ["one call with the model's own id", `[TOOL_CALLS][${one}]`, calls(call('{"text": "ls"}', "aB3dE6gH9"))],
    ["a call without an id", '[TOOL_CALLS] [{"name": "f", "arguments": {}}]', calls(call("{}"))],
    ["an id that is none", '[TOOL_CALLS][{"name": "f", "arguments": {}, "id": "1"}]', calls(call("{}"))],
    [
      "an id that is written twice",
      `[TOOL_CALLS][${one}, ${one}]`,
      calls(call('{"text": "ls"}', "aB3dE6gH9"), call('{"text": "ls"}', "call_4")),
    ],
    [
      "text before the calls",
      `I look.[TOOL_CALLS][${one}]`,
      { ...calls(call('{"text": "ls"}', "aB3dE6gH9")), content: "I look." },
    ],
    [
      "arguments with their text",
      '[TOOL_CALLS][{"name":"f","arguments":{"b":1.0, "10":[1,{"c":"],["}], "2":null}}]',
      calls(call('{"b":1.0, "10":[1,{"c":"],["}], "2":null}')),
    ],
    [
      "unicode",
      '[TOOL_CALLS][{"name": "f", "arguments": {"text": "日本 😀 \\"[\\""}}]',
      calls(call('{"text": "日本 😀 \\"[\\""}')),
    ],
    ["the newer form", '[TOOL_CALLS]f[ARGS]{"count": 1}', calls(call('{"count": 1}'))],
    [
      "the newer form with an id",
      '[TOOL_CALLS]f[CALL_ID]aB3dE6gH9[ARGS]{"count": 1}',
      calls(call('{"count": 1}', "aB3dE6gH9")),
    ],
    [
      "several of the newer form",
      '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{"b": 2}',
      calls(call('{"a": 1}'), call('{"b": 2}', "call_4", "g")),
    ],
    ["a name with its arguments at once", '[TOOL_CALLS]f{"a": 1}', calls(call('{"a": 1}'))],
    ["one object without a list", `[TOOL_CALLS]${one}`, calls(call('{"text": "ls"}', "aB3dE6gH9"))],
    ["a list that is cut", '[TOOL_CALLS][{"name": "f", "argu', malformed(/cut or not closed/)],
    ["broken JSON in a list", "[TOOL_CALLS][{'name': 'f'}]", malformed(/not JSON/)],
    ["an empty list", "[TOOL_CALLS][]", malformed(/empty list/)],
    ["text behind the list", `[TOOL_CALLS][${one}] so`, malformed(/text after/)],
    ["arguments that are cut", '[TOOL_CALLS]f[ARGS]{"a": ', malformed(/not JSON/)],
    ["arguments that are no object", "[TOOL_CALLS]f[ARGS][1]", malformed(/no object/)],
    ["nothing behind the marker", "[TOOL_CALLS]", malformed(/no call/)],
    ["reasoning between its tokens", `[THINK]hm[/THINK][TOOL_CALLS][${one}]`, { kind: "calls", reasoning: "hm" }],
    ["no call", "It is [4].", { kind: "answer", content: "It is [4]." }],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("mistral", text)).toMatchObject(expected);
  });
});

describe("parseTurn of deepseek", () => {
  const one = (args: string, name = "f") =>
    `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${args}\n\`\`\`<｜tool▁call▁end｜>`;
  const all = (...list: string[]) => `<｜tool▁calls▁begin｜>${list.join("\n")}<｜tool▁calls▁end｜>`;
  test.each<Row>([
    ["one call", all(one('{"text": "ls"}')), calls(call('{"text": "ls"}'))],
    ["text before a call", `I look.${all(one("{}"))}`, { ...calls(call("{}")), content: "I look." }],
    [
      "several calls",
      all(one('{"a": 1}'), one('{"b": 2}', "g")),
      calls(call('{"a": 1}'), call('{"b": 2}', "call_4", "g")),
    ],
    [
      "arguments with their text",
      all(one('{"b" :1.0,\n "a": {"c": [null]}}')),
      calls(call('{"b" :1.0,\n "a": {"c": [null]}}')),
    ],
    ["unicode and a fence within", all(one('{"text": "日本 😀 ``` x"}')), calls(call('{"text": "日本 😀 ``` x"}'))],
    [
      "V3.1's form",
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
      calls(call('{"a": 1}')),
    ],
    [
      "last closes that are missing",
      all(one('{"a": 1}')).slice(0, -"<｜tool▁call▁end｜><｜tool▁calls▁end｜>".length),
      calls(call('{"a": 1}')),
    ],
    ["reasoning before a call", `<think>hm</think>${all(one("{}"))}`, { kind: "calls", reasoning: "hm" }],
    [
      "a call cut in its block",
      '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": ',
      malformed(/closed block/),
    ],
    ["broken JSON", all(one("{a: 1}")), malformed(/not JSON/)],
    ["arguments that are no object", all(one("[1]")), malformed(/no object/)],
    ["a call without a separator", "<｜tool▁call▁begin｜>f<｜tool▁call▁end｜>", malformed(/no separator/)],
    ["a second call that is broken", all(one("{}"), one("{")), malformed(/tool call 2 is not JSON/)],
    ["no call", "It is 4.", { kind: "answer", content: "It is 4." }],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("deepseek", text)).toMatchObject(expected);
  });
});

describe("parseTurn of harmony", () => {
  const analysis = "<|channel|>analysis<|message|>I think<|end|>";
  const one = (args: string, name = "f") =>
    `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${args}<|call|>`;
  test.each<Row>([
    ["one call", one('{"text": "ls"}'), { ...calls(call('{"text": "ls"}')), reasoning: null }],
    [
      "reasoning before a call",
      `${analysis}<|start|>assistant${one("{}")}`,
      { ...calls(call("{}")), reasoning: "I think" },
    ],
    [
      "a recipient before the channel",
      ' to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>',
      calls(call('{"a": 1}')),
    ],
    [
      "a recipient behind the role",
      `${analysis}<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{}<|call|>`,
      calls(call("{}")),
    ],
    [
      "a preamble before a call",
      `<|channel|>commentary<|message|>I look.<|end|><|start|>assistant${one("{}")}`,
      { ...calls(call("{}")), content: "I look." },
    ],
    [
      "several calls",
      `${one('{"a": 1}')}<|start|>assistant${one('{"b": 2}', "g")}`,
      calls(call('{"a": 1}'), call('{"b": 2}', "call_4", "g")),
    ],
    [
      "arguments with their text",
      one('{"b":1.0, "a":{"c":[9007199254740993]}}'),
      calls(call('{"b":1.0, "a":{"c":[9007199254740993]}}')),
    ],
    ["unicode", one('{"text": "日本 😀 to=functions.g"}'), calls(call('{"text": "日本 😀 to=functions.g"}'))],
    ["a call whose close is missing", one("{}").slice(0, -"<|call|>".length), calls(call("{}"))],
    [
      "reasoning and an answer",
      `${analysis}<|start|>assistant<|channel|>final<|message|>It is 4.<|return|>`,
      { kind: "answer", content: "It is 4.", reasoning: "I think" },
    ],
    [
      "reasoning that was cut",
      "<|channel|>analysis<|message|>I thi",
      { kind: "answer", content: "", reasoning: "I thi" },
    ],
    [
      "a header that was cut",
      `${analysis}<|start|>assistant<|channel|>comm`,
      { kind: "answer", content: "", reasoning: "I think" },
    ],
    ["a call cut in its JSON", one('{"a": ').slice(0, -"<|call|>".length), malformed(/not JSON/)],
    [
      "a tool that is no function",
      "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
      malformed(/goes to python/),
    ],
    ["arguments that are no object", one("[1]"), malformed(/no object/)],
    ["a turn without channels", "It is 4.", { kind: "answer", content: "It is 4.", reasoning: null }],
  ])("reads %s", async (_case, text, expected) => {
    expect(await parse("harmony", text)).toMatchObject(expected);
  });

  test("has its channels read where the task's answer has no calls", async () => {
    const text = `${analysis}<|start|>assistant<|channel|>final<|message|>4<|return|>`;
    expect(await parse("none", text)).toEqual({ kind: "answer", content: "4", reasoning: "I think" });
  });
});

/** One well-formed turn of each format, with unicode, nesting and two calls where it may have them. */
const WHOLE: readonly (readonly [ToolFormat, string, number])[] = [
  [
    "hermes",
    `<think>hm 日</think>A.<tool_call>{"name": "f", "arguments": {"text": "é😀", "list": [1, {"a": "}"}]}}</tool_call>`.repeat(
      1,
    ),
    1,
  ],
  ["qwen3_coder", `<think>hm</think>A.${xml(["text", "é😀\n<b>"], ["list", "[1]"])}\n${xml(["count", "2"])}`, 2],
  ["llama3_json", '{"name": "f", "parameters": {"text": "é😀"}}; {"name": "f", "parameters": {"list": [1]}}', 2],
  [
    "mistral",
    'A.[TOOL_CALLS][{"name": "f", "arguments": {"text": "é😀]"}}, {"name": "f", "arguments": {"list": [1]}}]',
    2,
  ],
  [
    "deepseek",
    'A.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"text": "é😀"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    1,
  ],
  [
    "harmony",
    '<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"text": "é😀"}<|call|>',
    1,
  ],
];

describe.each(WHOLE)("parseTurn of %s", (format, text, count) => {
  test("reads the whole turn, and every truncation of it without a half-read call", async () => {
    const ids = encodeScripted(text).ids;
    expect(await parseIds(format, ids)).toMatchObject({ kind: "calls", calls: { length: count } });
    for (let length = 0; length < ids.length; length += 1) {
      const parsed = await parseIds(format, ids.slice(0, length));
      if (parsed.kind !== "calls") continue;
      expect(parsed.calls.length).toBeLessThanOrEqual(count);
      for (const { name, arguments: args } of parsed.calls) {
        expect(name).toBe("f");
        expect(JSON.parse(args)).toBeObject();
      }
    }
  });

  test("takes markers spelled in ordinary text for text", async () => {
    // Llama's calls are JSON without a marker: there is nothing to spell.
    const expected = format === "llama3_json" ? "calls" : "answer";
    const spelled = await parseSpelled(format, text);
    expect(spelled.kind).toBe(expected);
    if (spelled.kind === "answer") expect(spelled.content).toBe(text);
  });

  test("never throws, and gives arguments that are JSON, for turns put together at random", async () => {
    const pieces = [
      ...text.split(/(<[^<>]*>|\[[A-Z_]+\]|[{}[\]":,])/).filter((piece) => piece !== ""),
      "日",
      "\n",
      '"',
      "{",
    ];
    let state = 20_261_130;
    for (let round = 0; round < 300; round += 1) {
      let made = "";
      for (let left = round % 24; left >= 0; left -= 1) {
        state = (state * 48_271) % 2_147_483_647;
        made += pieces[state % pieces.length] ?? "";
      }
      const parsed = await parse(format, made);
      if (parsed.kind === "calls") for (const { arguments: args } of parsed.calls) expect(typeof args).toBe("string");
    }
  });
});

describe("parseTurn", () => {
  test("finds the markers of every format in text where the tokenizer has none of them", async () => {
    for (const [format, text, count] of WHOLE) {
      if (format === "harmony") continue;
      const bytes = Int32Array.from(Buffer.from(text));
      const turn = { ids: bytes, text: text.replace(/<think>.*<\/think>/s, ""), renderer: plain, nextCallNumber: 1 };
      expect(await parseTurn(format, turn)).toMatchObject({ kind: "calls", calls: { length: count } });
    }
  });

  test("knows every format that a task may name", async () => {
    for (const format of TOOL_FORMATS) expect(await parse(format, "4")).toMatchObject({ kind: "answer", content: "4" });
  });

  test("keeps what stands before an opening marker of reasoning", async () => {
    expect(await parse("none", "So: <think>hm</think>4")).toEqual({
      kind: "answer",
      content: "So: 4",
      reasoning: "hm",
    });
  });
});
