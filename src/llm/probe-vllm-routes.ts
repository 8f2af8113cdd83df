import { LLM_LIMITS } from "../limits.ts";
import type { BackendProfile } from "./engine.ts";
import { GenerateChunk, idOfLogprob, WeightInfo } from "./engines/vllm-api.ts";
import { completionsDialect } from "./engines/vllm-completions.ts";
import type { VllmDialect } from "./engines/vllm-dialect.ts";
import { generateDialect } from "./engines/vllm-generate.ts";
import type { Http } from "./http.ts";

/** An id that no request has: its abort tells whether the route is there, and ends nothing. */
const NO_REQUEST = "rolloutd-probe";
const NOT_ASKED = { tellsVersions: false, notes: [] };

/** What a vLLM server has beside `/v1/completions`; one token is sampled where it may. Throws only when it is gone. */
export async function probeVllmRoutes(
  http: Http,
  wanted: { model: string; completionsOnly: boolean },
  signal: AbortSignal,
) {
  const generate = wanted.completionsOnly ? NOT_ASKED : await probeGenerate(http, wanted.model, signal);
  const dialect = generate.tellsVersions ? generateDialect : completionsDialect;
  const paused = await get(http, "/is_paused", signal);
  return {
    endpoint: dialect.endpoint,
    tellsVersions: generate.tellsVersions,
    notes: generate.notes,
    abort: await probeAbort(http, dialect, signal),
    weights: await probeWeights(http, signal),
    kvTokens: await probeKv(http, signal),
    devMode: paused.status === 200,
  } satisfies Partial<BackendProfile>;
}

function get(http: Http, path: string, signal: AbortSignal) {
  return http.text({ method: "GET", path, ms: LLM_LIMITS.controlMs, signal });
}

async function probeGenerate(http: Http, model: string, signal: AbortSignal) {
  const { endpoint } = generateDialect;
  const sampling_params = { max_tokens: 1, temperature: 0, logprobs: 0 };
  const body = { model, token_ids: [1, 2], sampling_params, output_mode: "tokens", stream: false };
  const { status, body: text } = await http.text({ path: endpoint, ms: LLM_LIMITS.probeMs, signal, body });
  const without = (note: string) => ({ tellsVersions: false, notes: [note] });
  if (status === 403 || status === 404 || status === 405) {
    return without(
      `the server has no ${endpoint} (${status}): start it with --enable-scale-out to be told which weights sampled each token`,
    );
  }
  if (status !== 200) return without(`${endpoint} answers ${status} and is not used`);
  const choice = GenerateChunk.safeParse(json(text)).data?.choices[0];
  const [id] = choice?.token_ids ?? [];
  const [logprob] = choice?.logprobs?.content ?? [];
  if (id === undefined || logprob === undefined || idOfLogprob(logprob) !== id) {
    return without(`${endpoint} gives no log-prob for its ids and is not used`);
  }
  if (!choice?.weight_versions) return without(`${endpoint} does not tell versions of weights and is not used`);
  return { tellsVersions: true, notes: [] };
}

/** The one below `/inference` is guarded by the API key and always on where it exists; the other is for development. */
async function probeAbort(http: Http, dialect: VllmDialect, signal: AbortSignal): Promise<BackendProfile["abort"]> {
  for (const route of ["/inference/v1/abort_requests", "/abort_requests"]) {
    const body = { request_ids: [NO_REQUEST] };
    const { status } = await http.text({ path: route, ms: LLM_LIMITS.controlMs, signal, body });
    if (status === 200) return { route, id: dialect.abortId };
  }
  return null;
}

async function probeWeights(http: Http, signal: AbortSignal): Promise<BackendProfile["weights"]> {
  const route = "/weight_info";
  const { status, body } = await get(http, route, signal);
  const told = status === 200 ? WeightInfo.safeParse(json(body)).data : undefined;
  return told === undefined ? null : { route, version: told.weight_version };
}

/** Tokens that the caches of all engines behind this server hold. */
async function probeKv(http: Http, signal: AbortSignal): Promise<number | null> {
  const { status, body } = await get(http, "/metrics", signal);
  if (status !== 200) return null;
  let sum = 0;
  for (const [, labels = ""] of body.matchAll(/^vllm:cache_config_info\{([^}]*)\}/gm)) {
    const number = (label: string) => Number(new RegExp(`\\b${label}="(\\d+)"`).exec(labels)?.[1] ?? Number.NaN);
    const told = number("kv_cache_size_tokens");
    const tokens = Number.isNaN(told) ? number("num_gpu_blocks") * number("block_size") : told;
    if (!Number.isInteger(tokens) || tokens < 1) return null;
    sum += tokens;
  }
  return sum === 0 ? null : sum;
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
