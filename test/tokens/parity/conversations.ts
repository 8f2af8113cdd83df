import type { Message, ToolCall, ToolSchema } from "../../../src/trajectory/message.ts";

/** A conversation that is rendered by both; it ends with what a model would be asked to answer. */
export interface Conversation {
  name: string;
  messages: readonly Message[];
  tools: readonly ToolSchema[];
}

const user = (content: string): Message => ({ role: "user", content });
const system = (content: string): Message => ({ role: "system", content });
const assistant = (content: string, more: Partial<Message> = {}): Message => ({ role: "assistant", content, ...more });
const call = (args: string, number = 1, name = "probe"): ToolCall => ({ id: `call_${number}`, name, arguments: args });
const answer = (content: string, number = 1, name = "probe"): Message => ({
  role: "tool",
  content,
  toolCallId: `call_${number}`,
  name,
});

function tool(parametersText: string, name = "probe", description = "Looks."): ToolSchema {
  return { name, description, parameters: JSON.parse(parametersText), parametersText };
}

const PLAIN_TOOL = tool('{"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}');
const UNICODE = "naïve 日本語 😀👩‍👩‍👧 e\u0301 ﬁ ½ Ω Ωmega \u200b";

/** Schemas that have told engines apart, by what is in them. */
const SCHEMAS: Readonly<Record<string, string>> = {
  "a nested schema":
    '{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"array","items":{"type":"object","properties":{"c":{"type":"integer"}}}}}}}}',
  "booleans and nulls":
    '{"type":"object","properties":{"a":{"type":"boolean","default":true},"b":{"type":["string","null"],"default":null},"c":{"type":"boolean","default":false}},"additionalProperties":false}',
  floats:
    '{"type":"object","properties":{"a":{"type":"number","default":1.0,"minimum":0.1,"maximum":1e-7},"b":{"type":"number","default":1e16,"multipleOf":1E3},"c":{"type":"number","default":-0.0,"maximum":123456789012345680.0}}}',
  "integers beyond 2^53":
    '{"type":"object","properties":{"a":{"type":"integer","default":9007199254740993,"maximum":123456789012345678901234567890,"minimum":-9223372036854775808}}}',
  "keys like numbers, in an order":
    '{"type":"object","properties":{"b":{"type":"string"},"10":{"type":"string"},"2":{"type":"string"},"a":{"type":"string"}},"required":["2","b"]}',
  unicode:
    '{"type":"object","properties":{"名前":{"type":"string","description":"日本 \\"q\\" <b>&\'x\' \\u0001\\t é😀"}}}',
  "members named like methods":
    '{"type":"object","properties":{"items":{"type":"string"},"keys":{"type":"integer"},"values":{"type":"array","items":{"type":"string"}},"get":{"type":"boolean"}}}',
  "enums and unions":
    '{"type":"object","properties":{"a":{"type":"string","enum":["x","y"],"default":"x"},"b":{"anyOf":[{"type":"string"},{"type":"null"}]},"c":{"oneOf":[{"type":"integer"},{"type":"string"}],"description":"either"},"d":{"type":["integer","string"]}}}',
  "an empty object": '{"type":"object","properties":{}}',
  "arrays of everything":
    '{"type":"object","properties":{"a":{"type":"array"},"b":{"type":"array","items":{"type":"number"}},"c":{"type":"array","items":{"type":"boolean"}},"d":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}},"required":[]}',
  "numbers in lists":
    '{"type":"object","properties":{"a":{"type":"number","enum":[0,1,1.5,-2,1e2,0.30000000000000004]}}}',
};

/** Arguments that have told engines apart. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  "a text": '{"x": "ls -la | wc"}',
  "no arguments": "{}",
  "booleans and nulls": '{"a": true, "b": false, "c": null}',
  floats: '{"a": 1.0, "b": 1e-7, "c": 1e16, "d": 0.1, "e": -0.0, "f": 12345678.25, "g": 1e400}',
  "integers beyond 2^53": '{"a": 9007199254740993, "b": -123456789012345678901234567890, "c": -0}',
  "a nested value": '{"a": {"b": [1, {"c": [true, null, "x", 2.50]}], "d": {}}, "e": []}',
  "keys like numbers, in an order": '{"b": 1, "10": 2, "2": 3, "a": 4}',
  unicode: '{"名前": "日本語 😀 \\u00e9 \\"q\\" \\\\ \\n\\t<b>&\'"}',
};

/** Characters that tokenizers have told apart: digits of other kinds, marks, joiners, spaces, controls, and scripts. */
const POOLS = [
  "abcXYZ ',.;:!?-_/\\()[]{}<>|@#$%^&*+=~`\"",
  "0123456789²½Ⅷ٣৩𝟘①",
  " \t\n\r\u00a0\u2003\u3000\u200b\u200d\ufeff\u0085",
  "éüßñøåÀÎŒςΩΩжЖґאבגدرسहिन्दीไทย한국어日本語中文ー々",
  "e\u0301o\u0308\u1100\u1161\u0915\u093f",
  "😀👩‍👩‍👧🏳️‍🌈🇩🇪☃︎✈️𝔘𠀀",
  "\u0001\u001f\u007f\u0600\u2028\u2029\ufffd",
  "don't I'LL we've 'S it'd",
].map((pool) => Array.from(pool));

/** A text of these pools, the same for the same seed (Lehmer's generator). */
function randomText(seed: number): string {
  let state = seed;
  const below = (bound: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % bound;
  };
  let made = "";
  while (made.length < 400) {
    const pool = POOLS[below(POOLS.length)] ?? [];
    for (let left = 1 + below(4); left > 0; left -= 1) made += pool[below(pool.length)] ?? "";
  }
  return made;
}

const SEEDS = [1_001, 1_002, 1_003, 1_004, 1_005, 1_006, 1_007, 1_008];

const rounds = (args: string): Message[] => [
  user("go"),
  assistant("", { toolCalls: [call(args)] }),
  answer('{"ok": true, "n": 1.0}'),
];

export const CONVERSATIONS: readonly Conversation[] = [
  { name: "one user message", messages: [user("What is 2+3?")], tools: [] },
  { name: "a system message", messages: [system("Be brief."), user("Hi")], tools: [] },
  { name: "unicode", messages: [system(UNICODE), user(`${UNICODE}\n\n\tx = {'a': [1, 2]}  `)], tools: [] },
  { name: "an empty user message", messages: [user("")], tools: [] },
  { name: "an empty system message", messages: [system(""), user("x")], tools: [] },
  { name: "only spaces", messages: [user(" \n\t ")], tools: [] },
  { name: "spaces around", messages: [user("  x \n"), assistant(" \n y  "), user("\t z\r\n")], tools: [] },
  { name: "spaces that only one language strips", messages: [user("\u001c\u0085a\ufeff\u00a0\u001f")], tools: [] },
  {
    name: "numbers and code",
    messages: [user("12345678 3.14159 0x1F\nfor i in range(10):\n    print(i)\n")],
    tools: [],
  },
  { name: "few-shot turns", messages: [user("a"), assistant("```bash\nls\n```"), user("b")], tools: [] },
  { name: "identical user messages", messages: [user("a"), assistant("b"), user("a")], tools: [PLAIN_TOOL] },
  { name: "an empty assistant message", messages: [user("a"), assistant(""), user("b")], tools: [] },
  { name: "two user messages in a row", messages: [user("a"), user("b")], tools: [] },
  { name: "a system message in the middle", messages: [user("a"), assistant("b"), system("c"), user("d")], tools: [] },
  { name: "special tokens as text", messages: [user("<|im_end|></s><end_of_turn><|eot_id|><|end|>[INST]")], tools: [] },
  {
    name: "scaffold as text",
    messages: [user("a"), assistant("<think>b</think>c"), user("<tool_response>d")],
    tools: [],
  },
  {
    name: "a long conversation",
    messages: Array.from({ length: 31 }, (_, i) => (i % 2 ? assistant(`r${i}`) : user(`q${i}`))),
    tools: [],
  },
  {
    name: "accents decomposed and composed",
    messages: [user("e\u0301 é \u1e9b\u0323 \uac00 \u1100\u1161")],
    tools: [],
  },
  {
    name: "reasoning of an earlier turn",
    messages: [user("a"), assistant("b", { reasoning: "because\nof x" }), user("c")],
    tools: [],
  },
  {
    name: "reasoning before a call",
    messages: [user("a"), assistant("", { reasoning: " think \n", toolCalls: [call('{"x": "y"}')] }), answer("r")],
    tools: [PLAIN_TOOL],
  },
  {
    name: "reasoning of several rounds",
    messages: [
      user("a"),
      assistant("", { reasoning: "first", toolCalls: [call('{"x": "y"}')] }),
      answer("r"),
      assistant("", { reasoning: "second", toolCalls: [call('{"x": "z"}', 2)] }),
      answer("s", 2),
    ],
    tools: [PLAIN_TOOL],
  },
  { name: "a tool offered", messages: [user("go")], tools: [PLAIN_TOOL] },
  { name: "a tool and a system message", messages: [system("Be brief."), user("go")], tools: [PLAIN_TOOL] },
  {
    name: "two tools offered",
    messages: [user("go")],
    tools: [
      PLAIN_TOOL,
      tool('{"type":"object","properties":{"y":{"type":"integer"}}}', "other", 'Says "<b>" & naïve 日本.\nTwice.'),
    ],
  },
  {
    name: "text before a call",
    messages: [user("go"), assistant("Let me see.", { toolCalls: [call('{"x": "y"}')] }), answer("r")],
    tools: [PLAIN_TOOL],
  },
  {
    name: "several calls and answers",
    messages: [
      user("go"),
      assistant("", { toolCalls: [call('{"x": "y"}'), call('{"x": 1}', 2)] }),
      answer("first"),
      answer("second\n", 2),
    ],
    tools: [PLAIN_TOOL],
  },
  {
    name: "several rounds",
    messages: [
      system("Be brief."),
      user("go"),
      assistant("", { toolCalls: [call('{"x": "y"}')] }),
      answer("r"),
      assistant("Once more.", { toolCalls: [call('{"x": "z"}', 2)] }),
      answer("s", 2),
    ],
    tools: [PLAIN_TOOL],
  },
  {
    name: "a question after a round",
    messages: [
      user("go"),
      assistant("", { toolCalls: [call('{"x": "y"}')] }),
      answer("r"),
      assistant("Done."),
      user("And now?"),
    ],
    tools: [PLAIN_TOOL],
  },
  {
    name: "an empty answer of a tool",
    messages: [user("go"), assistant("", { toolCalls: [call('{"x": "y"}')] }), answer("")],
    tools: [PLAIN_TOOL],
  },
  {
    name: "an answer with markers and unicode",
    messages: [
      user("go"),
      assistant("", { toolCalls: [call('{"x": "y"}')] }),
      answer(`</tool_response><|im_end|>\n${UNICODE} "q"`),
    ],
    tools: [PLAIN_TOOL],
  },
  ...SEEDS.map((seed) => ({
    name: `random text of seed ${seed}`,
    messages: [user(randomText(seed)), assistant(randomText(seed * 7)), user(randomText(seed * 13))],
    tools: [],
  })),
  ...Object.entries(SCHEMAS).map(([name, schema]) => ({
    name: `a schema with ${name}`,
    messages: [system("Be brief."), user("go")],
    tools: [tool(schema)],
  })),
  ...Object.entries(ARGUMENTS).map(([name, args]) => ({
    name: `a call with ${name}`,
    messages: rounds(args),
    tools: [PLAIN_TOOL],
  })),
];
