import { createHash } from "node:crypto";
import { basename } from "node:path";
import { LLM_LIMITS } from "../limits.ts";
import type { BackendProfile } from "./engine.ts";
import { CompletionAnswer, Models, Version } from "./engines/vllm-api.ts";
import { invalid } from "./fault.ts";
import { type Http, parse } from "./http.ts";

const WHAT = "POST /v1/completions";
/** Below this two log-probs are too close to tell how temperature changed their difference. */
const DIFFERENCE_MIN = 0.05;

/** What a vLLM server can do; a few tokens are really sampled. Throws RolloutError when it cannot do what is needed. */
export async function probeVllm(http: Http, wanted: string | null, signal: AbortSignal): Promise<BackendProfile> {
  const small = { method: "GET", ms: LLM_LIMITS.controlMs, signal } as const;
  const models = await http.json(Models, { ...small, path: "/v1/models" });
  const model = wanted === null ? models.data[0] : models.data.find(({ id }) => id === wanted);
  if (model === undefined) {
    throw invalid("GET /v1/models", `no model ${wanted}; there is ${models.data.map(({ id }) => id).join(", ")}`);
  }
  const version = await http.text({ ...small, path: "/version" });
  const notes: string[] = [];
  await checkIds(http, model.id, signal);
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
  return {
    kind: "vllm",
    version: version.status === 200 ? parse(Version, version.body, "GET /version").version : null,
    model: model.id,
    contextTokensMax: model.max_model_len ?? LLM_LIMITS.contextTokensGuess,
    slots: null,
    kvTokens: null,
    logprobsMode: mode,
    renderer: "remote",
    notes,
    // By the folder's name: two machines may keep the same weights at different places.
    weightsIdentity: createHash("sha256")
      .update(JSON.stringify(["vllm", basename(model.root ?? model.id), model.parent ?? null]))
      .digest("hex"),
  };
}

function ask(http: Http, body: Record<string, unknown>, signal: AbortSignal) {
  return http.json(CompletionAnswer, {
    path: "/v1/completions",
    ms: LLM_LIMITS.probeMs,
    signal,
    body: { prompt: [1, 2], max_tokens: 1, top_p: 1, top_k: 0, min_p: 0, seed: 1, return_token_ids: true, ...body },
  });
}

async function checkIds(http: Http, model: string, signal: AbortSignal): Promise<void> {
  const answer = await ask(http, { model, max_tokens: 2, temperature: 0, logprobs: 0, ignore_eos: true }, signal);
  const choice = answer.choices[0];
  const ids = choice?.token_ids;
  if (ids === null || ids === undefined) {
    throw invalid(WHAT, "no token_ids in the answer: vLLM 0.10.2 or newer is needed");
  }
  const logprobs = choice?.logprobs?.token_logprobs ?? [];
  const counted = answer.usage?.completion_tokens;
  if (ids.length === 0 || ids.length !== logprobs.length || (counted !== undefined && counted !== ids.length)) {
    throw invalid(WHAT, `${ids.length} ids, ${logprobs.length} log-probs, ${counted ?? "no"} tokens counted`);
  }
  const wrong = logprobs.find((value) => value === null || !Number.isFinite(value));
  if (wrong !== undefined) throw invalid(WHAT, `log-prob ${wrong} in the probe`);
}

/** Servers in development mode tell their flags. */
async function flagOf(http: Http, signal: AbortSignal): Promise<"raw" | "processed" | null> {
  const path = "/server_info?config_format=json";
  const answer = await http.text({ method: "GET", path, ms: LLM_LIMITS.controlMs, signal });
  if (answer.status !== 200) return null;
  const mode = /"?logprobs_mode"?['"]?\s*[:=]\s*\\?['"]?(?:LogprobsMode\.)?(raw|processed)/i.exec(answer.body)?.[1];
  return mode?.toLowerCase() === "processed" ? "processed" : mode === undefined ? null : "raw";
}

/** Temperature 0.5 doubles the differences between processed log-probs and leaves raw ones as they are. */
async function detectMode(http: Http, model: string, signal: AbortSignal): Promise<"raw" | "processed" | null> {
  const plain = await topDifference(http, { model, temperature: 1 }, signal);
  const sharp = await topDifference(http, { model, temperature: 0.5 }, signal);
  if (plain === null || sharp === null || plain < DIFFERENCE_MIN) return null;
  return sharp / plain > 1.5 ? "processed" : "raw";
}

async function topDifference(http: Http, body: Record<string, unknown>, signal: AbortSignal): Promise<number | null> {
  const answer = await ask(http, { ...body, logprobs: 5 }, signal);
  const values = Object.values(answer.choices[0]?.logprobs?.top_logprobs?.[0] ?? {}).sort((a, b) => b - a);
  // The top two are the same tokens at both temperatures; the sampled one may stand anywhere below.
  const [first, second] = values;
  return first === undefined || second === undefined ? null : first - second;
}
