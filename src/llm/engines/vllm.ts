import { LLM_LIMITS } from "../../limits.ts";
import { TemplateRenderer } from "../../tokens/template-renderer.ts";
import type { FinishReason } from "../../trajectory/turn.ts";
import type { Completion, CompletionRequest, Engine } from "../engine.ts";
import { faultOfStatus, invalid } from "../fault.ts";
import { type Http, parse } from "../http.ts";
import { probeVllm } from "../probe-vllm.ts";
import { openVllmSource } from "../remote-vllm.ts";
import { CompletionChunk } from "./vllm-api.ts";

const ENDPOINT = "/v1/completions";
const WHAT = `POST ${ENDPOINT}`;

export interface VllmOptions {
  http: Http;
  /** Bound of one turn, ms. */
  turnMs: number;
  /** Name of the model to ask for; null takes the first the server lists. */
  model: string | null;
}

/**
 * vLLM's `/v1/completions` with token prompts. Streamed in two chunks: so a disconnect ends the request at once, and
 * the first token's time is known, at the price of an answer that is not streamed.
 */
export function createVllmEngine(options: VllmOptions): Engine {
  const { http } = options;
  let name = options.model;
  const modelName = async (signal: AbortSignal) => {
    name ??= (await probeVllm(http, null, signal)).model;
    return name;
  };
  return {
    kind: "vllm",
    async probe(signal) {
      const profile = await probeVllm(http, options.model, signal);
      name = profile.model;
      return profile;
    },
    complete: async (request, signal) => complete(options, await modelName(signal), request, signal),
    healthy: (signal) =>
      http.text({ method: "GET", path: "/health", ms: LLM_LIMITS.controlMs, signal }).then(
        (answer) => answer.status === 200,
        () => false,
      ),
    remoteRenderer: async (signal) => new TemplateRenderer(await openVllmSource(http, await modelName(signal), signal)),
  };
}

interface Collected {
  ids: number[];
  logprobs: number[];
  finish: string | null;
  stopReason: number | string | null;
  cachedTokens: number | null;
  firstTokenMs: number | null;
}

async function complete(
  options: VllmOptions,
  model: string,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<Completion> {
  const start = performance.now();
  const got: Collected = {
    ids: [],
    logprobs: [],
    finish: null,
    stopReason: null,
    cachedTokens: null,
    firstTokenMs: null,
  };
  await options.http.events(
    {
      path: ENDPOINT,
      ms: options.turnMs,
      signal,
      headers: { "X-Request-Id": request.requestId, "X-Session-ID": request.sessionId },
      body: requestBody(model, request),
    },
    (data) => {
      got.firstTokenMs ??= performance.now() - start;
      take(got, parse(CompletionChunk, data, WHAT));
    },
  );
  return {
    ids: Int32Array.from(got.ids),
    logprobs: Float32Array.from(got.logprobs),
    finishReason: finishReason(got.finish),
    stopReason: got.stopReason,
    versions: [],
    cachedTokens: got.cachedTokens,
    firstTokenMs: got.firstTokenMs,
    generationMs: performance.now() - start,
    endpoint: ENDPOINT,
  };
}

/** Every parameter is explicit: a server's generation_config may otherwise bring its own. */
function requestBody(model: string, request: CompletionRequest): Record<string, unknown> {
  const { sampling } = request;
  return {
    model,
    prompt: Array.from(request.ids),
    n: 1,
    max_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK === -1 ? 0 : sampling.topK,
    min_p: sampling.minP,
    presence_penalty: 0,
    frequency_penalty: 0,
    repetition_penalty: 1,
    ...(sampling.seed === null ? {} : { seed: sampling.seed }),
    stop: sampling.stop,
    stop_token_ids: [...request.stopTokenIds],
    include_stop_str_in_output: false,
    ignore_eos: false,
    min_tokens: 0,
    skip_special_tokens: false,
    logprobs: 0,
    return_token_ids: true,
    cache_salt: request.cacheSalt,
    request_id: request.requestId,
    session_id: request.sessionId,
    stream: true,
    stream_options: { include_usage: true },
    stream_interval: LLM_LIMITS.streamIntervalTokens,
  };
}

function take(got: Collected, chunk: CompletionChunk): void {
  if (chunk.error !== undefined) throw faultOfStatus(500, JSON.stringify({ error: chunk.error }), WHAT);
  got.cachedTokens = chunk.usage?.prompt_tokens_details?.cached_tokens ?? got.cachedTokens;
  for (const choice of chunk.choices) {
    if (choice.index !== 0) throw invalid(WHAT, `choice ${choice.index} of one that was asked for`);
    const ids = choice.token_ids ?? [];
    const logprobs = choice.logprobs?.token_logprobs ?? [];
    if (ids.length !== logprobs.length) throw invalid(WHAT, `${ids.length} ids but ${logprobs.length} log-probs`);
    got.ids.push(...ids);
    got.logprobs.push(...logprobs.map((value) => value ?? Number.NaN));
    got.finish = choice.finish_reason ?? got.finish;
    got.stopReason = choice.stop_reason ?? got.stopReason;
  }
}

/** A stream that ends without a reason was cut: older servers skip the last chunk of an aborted request. */
function finishReason(finish: string | null): FinishReason {
  return finish === "stop" || finish === "length" ? finish : "abort";
}
