import { createHash } from "node:crypto";
import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";
import { sentinelOf } from "../tokens/attribution.ts";
import {
  type Encoded,
  KNOWN_MARKERS,
  type TemplateSource,
  templateTool,
  wireMessage,
} from "../tokens/template-source.ts";
import { Content, Pieces, Prompt, Props, Tokens } from "./engines/llamacpp-api.ts";
import { faultOfStatus } from "./fault.ts";
import { type Http, parse } from "./http.ts";
import { looksSpecial, TOKENIZER_PROBE, turnEndCandidates } from "./remote-probe.ts";

/** Rendering through llama.cpp's `/apply-template`, `/tokenize` and `/detokenize`. `signal` bounds the opening only. */
export async function openLlamaCppSource(http: Http, signal: AbortSignal): Promise<TemplateSource> {
  const props = await http.json(Props, { method: "GET", path: "/props", ms: LLM_LIMITS.controlMs, signal });
  const ask = createAsk(http);
  const markers = new Map<string, number>();
  for (const marker of KNOWN_MARKERS) {
    const id = await ask.specialId(marker, signal);
    if (id !== null) markers.set(marker, id);
  }
  const endIds = await findEndIds(ask, props.eos_token, signal);
  const hash = createHash("sha256");
  for (const text of TOKENIZER_PROBE) hash.update(JSON.stringify((await ask.encode(text, signal)).ids));
  const never = new AbortController().signal;
  return {
    kind: "remote",
    tokenizerHash: hash.digest("hex"),
    templateHash: createHash("sha256").update(props.chat_template).digest("hex"),
    endIds,
    render: (messages, tools) =>
      ask.render({ messages: messages.map(wireMessage), tools: tools.map(templateTool) }, never),
    encode: (text) => ask.encode(text, never),
    decode: (ids, keepSpecial) => ask.decode(ids, keepSpecial, never),
    markerId: (marker) => markers.get(marker) ?? null,
  };
}

function createAsk(http: Http) {
  const ms = LLM_LIMITS.renderMs;
  const encode = async (content: string, signal: AbortSignal): Promise<Encoded> => {
    const body = { content, add_special: false, parse_special: true, with_pieces: true };
    const { tokens } = await http.json(Pieces, { path: "/tokenize", ms, signal, body });
    const byteLengths = tokens.map(({ piece }) =>
      typeof piece === "string" ? Buffer.byteLength(piece) : piece.length,
    );
    return { ids: tokens.map(({ id }) => id), byteLengths };
  };
  const detokenize = async (tokens: readonly number[], signal: AbortSignal) =>
    (await http.json(Content, { path: "/detokenize", ms, signal, body: { tokens } })).content;
  return {
    encode,
    async render(conversation: { messages: unknown[]; tools: unknown[] }, signal: AbortSignal): Promise<string> {
      const { messages, tools } = conversation;
      const body = { messages, ...(tools.length === 0 ? {} : { tools }), add_generation_prompt: true };
      const answer = await http.text({ path: "/apply-template", ms, signal, body });
      if (answer.status === 200) return parse(Prompt, answer.body, "POST /apply-template").prompt;
      const fault = faultOfStatus(answer.status, answer.body, "POST /apply-template");
      // A 4xx here, or a 500 with the template's own words, is the template refusing the messages.
      if (/template|jinja|role/i.test(answer.body)) throw new RolloutError("task_invalid", fault.detail);
      throw fault;
    },
    /** The id of a text that is one token as a special token and is not one as plain text; else null. */
    async specialId(text: string, signal: AbortSignal): Promise<number | null> {
      const [id, ...more] = (await encode(text, signal)).ids;
      const body = { content: text, add_special: false, parse_special: false };
      const plain = (await http.json(Tokens, { path: "/tokenize", ms, signal, body })).tokens;
      return id !== undefined && more.length === 0 && plain[0] !== id ? id : null;
    },
    async decode(ids: readonly number[], keepSpecial: boolean, signal: AbortSignal): Promise<string> {
      if (ids.length === 0) return "";
      const text = await detokenize(ids, signal);
      if (keepSpecial || !/<[^<>\s]+>/.test(text)) return text;
      return withoutSpecial(ids, { detokenize, specialId: (piece) => this.specialId(piece, signal) }, signal);
    },
  };
}

type Ask = ReturnType<typeof createAsk>;

interface SpecialAsk {
  detokenize(ids: readonly number[], signal: AbortSignal): Promise<string>;
  specialId(text: string): Promise<number | null>;
}

/** `/detokenize` always shows special tokens, so ids that look like one are asked about and left out. */
async function withoutSpecial(ids: readonly number[], ask: SpecialAsk, signal: AbortSignal): Promise<string> {
  const special = new Set<number>();
  for (const id of new Set(ids)) {
    const piece = await ask.detokenize([id], signal);
    if (looksSpecial(piece) && (await ask.specialId(piece)) === id) special.add(id);
  }
  return ask.detokenize(
    ids.filter((id) => !special.has(id)),
    signal,
  );
}

async function findEndIds(ask: Ask, eosToken: string, signal: AbortSignal): Promise<number[]> {
  const probe = sentinelOf(0);
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: probe },
    { role: "user", content: "b" },
  ];
  const shown = await ask.render({ messages, tools: [] }, signal);
  const found: number[] = [];
  for (const candidate of [...turnEndCandidates(shown.slice(shown.indexOf(probe) + probe.length)), eosToken]) {
    const id = candidate === "" ? null : await ask.specialId(candidate, signal);
    if (id !== null && !found.includes(id)) found.push(id);
  }
  if (found.length === 0) throw new RolloutError("backend_invalid", "the server names no end token");
  return found;
}
