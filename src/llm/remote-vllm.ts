import { createHash } from "node:crypto";
import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";
import { sentinelOf } from "../tokens/attribution.ts";
import { byteLevelLength } from "../tokens/byte-level.ts";
import {
  type Encoded,
  KNOWN_MARKERS,
  type TemplateSource,
  templateTool,
  wireMessage,
} from "../tokens/template-source.ts";
import { DetokenizeAnswer, TokenizeAnswer } from "./engines/vllm-api.ts";
import { faultOfStatus, invalid } from "./fault.ts";
import { type Http, parse } from "./http.ts";
import { looksSpecial, TOKENIZER_PROBE, turnEndCandidates } from "./remote-probe.ts";

/** Rendering through vLLM's `/tokenize` and `/detokenize`. `signal` bounds the opening only. */
export async function openVllmSource(http: Http, model: string, signal: AbortSignal): Promise<TemplateSource> {
  const ask = createAsk(http, model);
  const markers = new Map<string, number>();
  for (const marker of KNOWN_MARKERS) {
    const { ids } = await ask.encode(marker, signal);
    if (ids.length === 1 && ids[0] !== undefined) markers.set(marker, ids[0]);
  }
  const probe = sentinelOf(0);
  const messages = [
    { role: "user", content: "a" },
    { role: "assistant", content: probe },
    { role: "user", content: "b" },
  ];
  const shown = await ask.render({ messages, tools: [] }, signal);
  const [end] = turnEndCandidates(shown.slice(shown.indexOf(probe) + probe.length));
  const endIds = end === undefined ? [] : (await ask.encode(end, signal)).ids;
  if (endIds.length !== 1) throw invalid("POST /tokenize", "the chat template shows no end token of one id");
  const hash = createHash("sha256");
  for (const text of TOKENIZER_PROBE) hash.update(JSON.stringify((await ask.encode(text, signal)).ids));
  const never = new AbortController().signal;
  return {
    kind: "remote",
    tokenizerHash: hash.digest("hex"),
    templateHash: createHash("sha256").update(shown).digest("hex"),
    endIds,
    render: (list, tools) => ask.render({ messages: list.map(wireMessage), tools: tools.map(templateTool) }, never),
    encode: (text) => ask.encode(text, never),
    decode: (ids, keepSpecial) => (keepSpecial ? ask.decode(ids, never) : ask.decodePlain(ids, endIds, never)),
    markerId: (marker) => markers.get(marker) ?? null,
  };
}

function createAsk(http: Http, model: string) {
  const ms = LLM_LIMITS.renderMs;
  const decode = async (tokens: readonly number[], signal: AbortSignal) => {
    if (tokens.length === 0) return "";
    const body = { model, tokens };
    return (await http.json(DetokenizeAnswer, { path: "/detokenize", ms, signal, body })).prompt;
  };
  const encode = async (prompt: string, signal: AbortSignal): Promise<Encoded> => {
    const body = { model, prompt, add_special_tokens: false, return_token_strs: true };
    const { tokens, token_strs } = await http.json(TokenizeAnswer, { path: "/tokenize", ms, signal, body });
    return { ids: tokens, byteLengths: byteLengths(token_strs ?? null) };
  };
  return {
    encode,
    decode,
    /** `/detokenize` always shows special tokens, so those are looked for and left out. */
    async decodePlain(ids: readonly number[], endIds: readonly number[], signal: AbortSignal): Promise<string> {
      const rest = ids.filter((id) => !endIds.includes(id));
      const shown = await decode(rest, signal);
      if (!/<\|[^<>\s]+\|>|<\/?[a-z_]+>|<｜/.test(shown)) return shown;
      const special = new Set<number>();
      for (const id of new Set(rest)) {
        const piece = await decode([id], signal);
        if (!looksSpecial(piece)) continue;
        const again = (await encode(piece, signal)).ids;
        if (again.length === 1 && again[0] === id) special.add(id);
      }
      return decode(
        rest.filter((id) => !special.has(id)),
        signal,
      );
    },
    /** The server tells ids only; its text is what these ids stand for, and must give the same ids again. */
    async render(conversation: { messages: unknown[]; tools: unknown[] }, signal: AbortSignal): Promise<string> {
      const { messages, tools } = conversation;
      const body = {
        model,
        messages,
        ...(tools.length === 0 ? {} : { tools }),
        add_generation_prompt: true,
        add_special_tokens: false,
      };
      const answer = await http.text({ path: "/tokenize", ms, signal, body });
      if (answer.status !== 200) {
        const fault = faultOfStatus(answer.status, answer.body, "POST /tokenize");
        throw fault.reason === "backend_invalid" && answer.status < 500
          ? new RolloutError("task_invalid", fault.detail)
          : fault;
      }
      const { tokens } = parse(TokenizeAnswer, answer.body, "POST /tokenize");
      const text = await decode(tokens, signal);
      const again = await encode(text, signal);
      if (again.ids.length !== tokens.length || again.ids.some((id, index) => id !== tokens[index])) {
        throw invalid(
          "POST /tokenize",
          "text and ids of a prompt do not agree; name the model's tokenizer folder instead",
        );
      }
      return text;
    },
  };
}

/** Special tokens are shown as themselves and are ASCII, so both spellings count the same bytes. */
function byteLengths(tokens: readonly string[] | null): number[] | null {
  if (tokens === null) return null;
  const lengths: number[] = [];
  for (const token of tokens) {
    const length = byteLevelLength(token);
    if (length === null) return null;
    lengths.push(length);
  }
  return lengths;
}
