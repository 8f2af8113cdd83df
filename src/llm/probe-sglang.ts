import { createHash } from "node:crypto";
import { basename } from "node:path";
import { LLM_LIMITS } from "../limits.ts";
import { DEFAULT_SAMPLING } from "../trajectory/sampling.ts";
import type { BackendProfile } from "./engine.ts";
import { GenerateAnswer, ModelInfo, ServerInfo, samplingParams } from "./engines/sglang-api.ts";
import { faultOfStatus, invalid } from "./fault.ts";
import { type Http, parse } from "./http.ts";
import { modeOfLogprobs } from "./logprobs-mode.ts";

const WHAT = "POST /generate";
/** Enough to tell likely tokens apart. */
const TOP_LOGPROBS = 5;

/** What an SGLang server can do; a few tokens are really sampled. Throws RolloutError when it cannot do what is needed. */
export async function probeSglang(http: Http, signal: AbortSignal): Promise<BackendProfile> {
  const info = await first(http, ["/model_info", "/get_model_info"], signal);
  const model = parse(ModelInfo, info.body, `GET ${info.path}`);
  const about = await first(http, ["/server_info", "/get_server_info"], signal);
  const server = parse(ServerInfo, about.body, `GET ${about.path}`);
  const notes: string[] = [];
  const streamInterval = await takesStreamInterval(http, signal);
  const plain = await topLogprobs(http, 1, signal);
  const mode = modeOfLogprobs(plain, await topLogprobs(http, 0.5, signal));
  if (mode === null) notes.push("the server does not tell whether log-probs are raw or processed; raw is assumed");
  if (mode !== "processed") {
    notes.push(
      "log-probs are raw: start SGLang without SGLANG_RETURN_ORIGINAL_LOGPROB to sample at another temperature than 1",
    );
  }
  if (!server.context_length) {
    notes.push(`the server does not tell its context; ${LLM_LIMITS.contextTokensGuess} tokens are assumed`);
  }
  if (!streamInterval) notes.push("the server streams each token by itself, which costs it and us time");
  return {
    kind: "sglang",
    version: server.version ?? null,
    model: server.served_model_name ?? model.model_path,
    contextTokensMax: server.context_length || LLM_LIMITS.contextTokensGuess,
    slots: server.max_running_requests ?? null,
    kvTokens: server.max_total_num_tokens ?? null,
    logprobsMode: mode ?? "raw",
    renderer: "remote",
    endpoint: "/generate",
    tokenExact: true,
    tellsVersions: false,
    abort: { route: "/abort_request", id: "{id}" },
    weights: model.weight_version ? { route: info.path, version: model.weight_version } : null,
    streamInterval,
    devMode: null,
    notes,
    weightsIdentity: createHash("sha256")
      .update(JSON.stringify(["sglang", basename(model.model_path)]))
      .digest("hex"),
  };
}

/** The answer of the first route that is there. */
async function first(http: Http, paths: readonly string[], signal: AbortSignal) {
  let last = { status: 0, body: "" };
  for (const path of paths) {
    last = await http.text({ method: "GET", path, ms: LLM_LIMITS.controlMs, signal });
    if (last.status === 200) return { path, body: last.body };
  }
  throw faultOfStatus(last.status, last.body, `GET ${paths.join(" or ")}`);
}

/** Older servers refuse a sampling parameter that they do not know. */
async function takesStreamInterval(http: Http, signal: AbortSignal): Promise<boolean> {
  const { stream_interval } = { stream_interval: LLM_LIMITS.streamIntervalTokens };
  const { status } = await http.text({
    path: "/generate",
    ms: LLM_LIMITS.probeMs,
    signal,
    body: body(1, { stream_interval }),
  });
  return status === 200;
}

async function topLogprobs(http: Http, temperature: number, signal: AbortSignal): Promise<number[]> {
  const answer = await http.json(GenerateAnswer, {
    path: "/generate",
    ms: LLM_LIMITS.probeMs,
    signal,
    body: body(temperature, {}),
  });
  const logprobs = answer.meta_info?.output_token_logprobs ?? [];
  const [sampled] = logprobs;
  if (sampled === undefined || answer.output_ids?.[0] !== sampled[1]) {
    throw invalid(WHAT, "output_ids and output_token_logprobs do not tell the same id");
  }
  if (sampled[0] === null || !Number.isFinite(sampled[0])) throw invalid(WHAT, `log-prob ${sampled[0]} in the probe`);
  return (answer.meta_info?.output_top_logprobs?.[0] ?? []).flatMap(([logprob]) => (logprob === null ? [] : [logprob]));
}

function body(temperature: number, params: Record<string, unknown>): Record<string, unknown> {
  const sampling = { ...DEFAULT_SAMPLING, temperature, maxTokens: 1, seed: null };
  return {
    input_ids: [1, 2],
    sampling_params: { ...samplingParams(sampling, []), ...params },
    return_logprob: true,
    top_logprobs_num: TOP_LOGPROBS,
    stream: false,
  };
}
