import { createHash } from "node:crypto";
import { basename } from "node:path";
import { LLM_LIMITS } from "../limits.ts";
import type { BackendProfile } from "./engine.ts";
import { newStreamedTurn } from "./engines/streamed-turn.ts";
import { CompletionAnswer, CompletionChunk, Models, Version } from "./engines/vllm-api.ts";
import { completionsDialect, takeCompletionChunk } from "./engines/vllm-completions.ts";
import { invalid } from "./fault.ts";
import { type Http, parse } from "./http.ts";
import { modeOfLogprobs } from "./logprobs-mode.ts";
import { probeVllmRoutes } from "./probe-vllm-routes.ts";

const WHAT = `POST ${completionsDialect.endpoint}`;
/** Enough for a stream in two pieces to differ from one by tokens. */
const STREAMED_TOKENS = 4;

/** What is wanted of a server: the model by name (null: its first), and perhaps no other route than `/v1/completions`. */
export interface WantedVllm {
  model: string | null;
  completionsOnly: boolean;
}

/** What a vLLM server can do; a few tokens are really sampled. Throws RolloutError when it cannot do what is needed. */
export async function probeVllm(http: Http, wanted: WantedVllm, signal: AbortSignal): Promise<BackendProfile> {
  const small = { method: "GET", ms: LLM_LIMITS.controlMs, signal } as const;
  const models = await http.json(Models, { ...small, path: "/v1/models" });
  const model = wanted.model === null ? models.data[0] : models.data.find(({ id }) => id === wanted.model);
  if (model === undefined) {
    throw invalid("GET /v1/models", `no model ${wanted.model}; there is ${models.data.map(({ id }) => id).join(", ")}`);
  }
  const version = await http.text({ ...small, path: "/version" });
  const notes: string[] = [];
  const streamInterval = await checkStream(http, model.id, signal);
  const told = (await flagOf(http, signal)) ?? (await detectMode(http, model.id, signal));
  if (told === null) notes.push("the server does not tell whether log-probs are raw or processed; raw is assumed");
  const mode = told ?? "raw";
  if (mode === "raw") {
    notes.push(
      "log-probs are raw: start vLLM with --logprobs-mode processed_logprobs to sample at another temperature than 1",
    );
  }
  if (model.max_model_len === undefined || model.max_model_len === null) {
    notes.push(`the server does not tell its context; ${LLM_LIMITS.contextTokensGuess} tokens are assumed`);
  }
  const { notes: routeNotes, ...routes } = await probeVllmRoutes(http, { ...wanted, model: model.id }, signal);
  notes.push(...routeNotes);
  if (!streamInterval) notes.push("the server streams each token by itself, which costs it and us time");
  return {
    kind: "vllm",
    version: version.status === 200 ? parse(Version, version.body, "GET /version").version : null,
    model: model.id,
    contextTokensMax: model.max_model_len ?? LLM_LIMITS.contextTokensGuess,
    slots: null,
    logprobsMode: mode,
    renderer: "remote",
    tokenExact: true,
    streamInterval,
    ...routes,
    notes,
    // By the folder's name: two machines may keep the same weights at different places.
    weightsIdentity: createHash("sha256")
      .update(JSON.stringify(["vllm", basename(model.root ?? model.id), model.parent ?? null]))
      .digest("hex"),
  };
}

const PROBE_BODY = { prompt: [1, 2], top_p: 1, top_k: 0, min_p: 0, seed: 1, return_token_ids: true } as const;

/** Streams a few tokens as turns are streamed, and checks what comes. Gives whether they came in two pieces. */
async function checkStream(http: Http, model: string, signal: AbortSignal): Promise<boolean> {
  const turn = newStreamedTurn();
  let counted: number | null = null;
  let pieces = 0;
  const body = {
    ...PROBE_BODY,
    model,
    max_tokens: STREAMED_TOKENS,
    temperature: 0,
    logprobs: 0,
    ignore_eos: true,
    stream: true,
    stream_options: { include_usage: true },
    stream_interval: LLM_LIMITS.streamIntervalTokens,
  };
  await http.events({ path: completionsDialect.endpoint, ms: LLM_LIMITS.probeMs, signal, body }, (data) => {
    const chunk = parse(CompletionChunk, data, WHAT);
    const [choice] = chunk.choices;
    if (choice !== undefined && !choice.token_ids && choice.logprobs) {
      throw invalid(WHAT, "no token_ids in the answer: vLLM 0.10.2 or newer is needed");
    }
    counted = chunk.usage?.completion_tokens ?? counted;
    pieces += choice?.token_ids?.length ? 1 : 0;
    takeCompletionChunk(turn, chunk);
  });
  const { ids, logprobs } = turn;
  if (ids.length === 0 || (counted !== null && counted !== ids.length)) {
    throw invalid(WHAT, `${ids.length} ids, ${counted ?? "no"} tokens counted`);
  }
  const wrong = logprobs.find((value) => !Number.isFinite(value));
  if (wrong !== undefined) throw invalid(WHAT, `log-prob ${wrong} in the probe`);
  return pieces < ids.length;
}

/** Servers in development mode tell their flags. */
async function flagOf(http: Http, signal: AbortSignal): Promise<"raw" | "processed" | null> {
  const path = "/server_info?config_format=json";
  const answer = await http.text({ method: "GET", path, ms: LLM_LIMITS.controlMs, signal });
  if (answer.status !== 200) return null;
  const mode = /"?logprobs_mode"?['"]?\s*[:=]\s*\\?['"]?(?:LogprobsMode\.)?(raw|processed)/i.exec(answer.body)?.[1];
  return mode?.toLowerCase() === "processed" ? "processed" : mode === undefined ? null : "raw";
}

async function detectMode(http: Http, model: string, signal: AbortSignal): Promise<"raw" | "processed" | null> {
  const plain = await topLogprobs(http, { model, temperature: 1 }, signal);
  return modeOfLogprobs(plain, await topLogprobs(http, { model, temperature: 0.5 }, signal));
}

async function topLogprobs(http: Http, told: Record<string, unknown>, signal: AbortSignal): Promise<number[]> {
  const body = { ...PROBE_BODY, ...told, max_tokens: 1, logprobs: 5 };
  const path = completionsDialect.endpoint;
  const answer = await http.json(CompletionAnswer, { path, ms: LLM_LIMITS.probeMs, signal, body });
  return Object.values(answer.choices[0]?.logprobs?.top_logprobs?.[0] ?? {});
}
