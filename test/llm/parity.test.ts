import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { createLlamaCppEngine } from "../../src/llm/engines/llamacpp.ts";
import { createHttp, parseAddress } from "../../src/llm/http.ts";
import { compareRenderers } from "../../src/llm/parity.ts";
import { createBackends } from "../../src/llm/registry.ts";
import { silentLog } from "../../src/log.ts";
import { createLocalRenderers, type LocalRenderer } from "../../src/tokens/local-renderers.ts";
import type { Renderer } from "../../src/tokens/renderer.ts";
import type { Message } from "../../src/trajectory/message.ts";
import { type RealModel, startRealModel } from "../support/model.ts";
import { TEMPLATES, tokenizerFolder } from "../support/tokenizer-folder.ts";

// The real server shares its cores with everything else that runs.
setDefaultTimeout(30_000);

const never = new AbortController().signal;

describe("local rendering of the demo model", () => {
  let model: RealModel;
  let local: LocalRenderer;
  let remote: Renderer;
  const renderers = createLocalRenderers();

  beforeAll(async () => {
    model = await startRealModel();
    local = await renderers.open(model.files.tokenizer);
    const address = parseAddress(model.server.url);
    if (address === null) throw new Error("no url");
    const engine = createLlamaCppEngine({ http: createHttp(address, null, systemClock), turnMs: 10_000 });
    remote = await engine.remoteRenderer(never);
  });
  afterAll(async () => {
    await renderers[Symbol.asyncDispose]();
    await model[Symbol.asyncDispose]();
  });

  test("gives the ids of the real server for every conversation of the parity probe", async () => {
    expect(await compareRenderers(local, remote)).toBeNull();
  });

  test("gives the server's ids, and the text back, for random text of every script", async () => {
    const random = generator(20_261_130);
    for (let round = 0; round < 150; round += 1) {
      const text = randomText(random);
      const here = await local.encode(text);
      const answer = await fetch(`${model.server.url}/tokenize`, {
        method: "POST",
        body: JSON.stringify({ content: text, add_special: false, parse_special: true }),
      });
      const { tokens } = (await answer.json()) as { tokens: number[] };
      expect({ text, ids: [...here] }).toEqual({ text, ids: tokens });
      expect(await local.decode(here, true)).toBe(text);
    }
  });

  test("attributes ids as the server's pieces do", async () => {
    const messages: Message[] = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "naïve 😀 日本語\n```bash\nls\n```" },
      { role: "assistant", content: "user" },
      { role: "user", content: "  spaces  " },
    ];
    const here = await local.renderPrompt(messages, []);
    const there = await remote.renderPrompt(messages, []);
    expect(there.ids).toEqual(here.ids);
    expect(there.message).toEqual(here.message);
    expect(new Set(here.message)).toEqual(new Set([-1, 0, 1, 2, 3]));
  });

  test("decodes as the server does, with and without special tokens", async () => {
    const { ids } = await local.renderPrompt([{ role: "user", content: "a <b> c 😀" }], []);
    expect(await remote.decode(ids, true)).toBe(await local.decode(ids, true));
    expect(await remote.decode(ids, false)).toBe(await local.decode(ids, false));
  });

  test("is what a backend uses when both agree, and is left to the server with the difference named when not", async () => {
    const other = await tokenizerFolder(TEMPLATES.strict);
    const backends = await createBackends({ clock: systemClock, log: silentLog, backendWaitMs: 1_000, turnMs: 10_000 });
    const spec = {
      url: model.server.url,
      model: null,
      role: "policy",
      kind: "auto",
      apiKey: null,
      weight: 1,
      policyVersion: null,
    } as const;
    const agreeing = await backends.add({ ...spec, tokenizer: model.files.tokenizer }, { probe: true });
    expect(agreeing.backend.profile?.renderer).toBe("local");
    await backends.remove(agreeing.backend.id, { force: false });
    const differing = await backends.add({ ...spec, tokenizer: other.path }, { probe: true });
    expect(differing.backend.profile?.renderer).toBe("remote");
    expect(differing.backend.profile?.notes.join()).toContain("ends with token 0 here and with 2 there");
    await backends[Symbol.asyncDispose]();
    await other[Symbol.asyncDispose]();
  });
});

/** A small generator of equal numbers for equal seeds, so a failure can be repeated. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const PIECES = [
  "hello",
  " world",
  "\n",
  "\t",
  "  ",
  "1234567",
  "3.14",
  "it's",
  "don't",
  "é",
  "e\u0301",
  "日本",
  "한국",
  "العربية",
  "Ελ",
  "😀",
  "👩‍👩‍👧",
  "🇩🇪",
  "<|im_end|>",
  "<|im_start|>",
  "<tool_call>",
  '{"a": [1]}',
  "::",
  "//",
  "'''",
  "\r\n",
  "\u00a0",
  "\u200b",
  "ﬁ",
  "x=1;",
];

function randomText(random: (below: number) => number): string {
  return Array.from({ length: 1 + random(40) }, () => PIECES[random(PIECES.length)]).join("");
}
