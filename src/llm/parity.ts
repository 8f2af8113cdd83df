import { RolloutError } from "../errors.ts";
import type { Renderer } from "../tokens/renderer.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";

interface Conversation {
  name: string;
  messages: readonly Message[];
  tools: readonly ToolSchema[];
}

/** What has told template engines and tokenizers apart: booleans, nulls, floats, nested schemas, scripts, spaces. */
const TOOL: ToolSchema = {
  name: "probe",
  description: 'Says "<b>yes</b>" & naïve 日本語',
  parameters: {
    type: "object",
    properties: {
      flag: { type: "boolean", default: true },
      ratio: { type: "number", default: 1.5 },
      nothing: { type: ["string", "null"], default: null },
      items: { type: "array", items: { type: "object", properties: { n: { type: "integer" } } } },
    },
    required: ["flag"],
    additionalProperties: false,
  },
};

const TEXT = "naïve 日本語 😀👩‍👩‍👧 e\u0301 12345.678\n\n\tx = {'a': [1, 2]}  ";

const CONVERSATIONS: readonly Conversation[] = [
  { name: "one user message", messages: [{ role: "user", content: "What is 2+3?" }], tools: [] },
  {
    name: "system and unicode",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: TEXT },
    ],
    tools: [],
  },
  {
    name: "few-shot turns",
    messages: [
      { role: "user", content: "a" },
      { role: "assistant", content: "```bash\nls\n```" },
      { role: "user", content: "  b\r\n" },
    ],
    tools: [],
  },
  {
    name: "tools",
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "go" },
    ],
    tools: [TOOL],
  },
];

const DELTAS: readonly (readonly Message[])[] = [
  [{ role: "user", content: TEXT }],
  [{ role: "tool", content: '{"ok": true, "n": 1.0}', toolCallId: "call_1", name: "probe" }],
];

/**
 * The first difference between two renderers of one model, in words; null when they give the same ids throughout.
 * A conversation that both refuse is no difference. Throws RolloutError backend_unreachable or backend_timeout.
 */
export async function compareRenderers(local: Renderer, remote: Renderer): Promise<string | null> {
  if (local.endIds[0] !== remote.endIds[0]) {
    return `a turn ends with token ${local.endIds[0]} here and with ${remote.endIds[0]} there`;
  }
  for (const { name, messages, tools } of CONVERSATIONS) {
    const found = await compare(name, (renderer) => renderer.renderPrompt(messages, tools), { local, remote });
    if (found !== null) return found;
  }
  for (const added of DELTAS) {
    for (const ended of [true, false]) {
      const name = `delta of a ${added[0]?.role} message${ended ? "" : " after a cut turn"}`;
      const found = await compare(name, (renderer) => renderer.renderDelta(added, [], ended), { local, remote });
      if (found !== null) return found;
    }
  }
  return null;
}

async function compare(
  name: string,
  render: (renderer: Renderer) => Promise<{ ids: Int32Array }>,
  pair: { local: Renderer; remote: Renderer },
): Promise<string | null> {
  const here = await idsOrRefusal(render(pair.local));
  const there = await idsOrRefusal(render(pair.remote));
  if (here === null && there === null) return null;
  if (here === null || there === null) return `${name}: refused ${here === null ? "here" : "there"} only`;
  const length = Math.max(here.length, there.length);
  for (let at = 0; at < length; at += 1) {
    if (here[at] !== there[at])
      return `${name}: id ${at} is ${here[at] ?? "absent"} here, ${there[at] ?? "absent"} there`;
  }
  return null;
}

async function idsOrRefusal(rendering: Promise<{ ids: Int32Array }>): Promise<Int32Array | null> {
  try {
    return (await rendering).ids;
  } catch (error) {
    if (error instanceof RolloutError && error.reason === "task_invalid") return null;
    throw error;
  }
}
