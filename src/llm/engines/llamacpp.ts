import { LLM_LIMITS } from "../../limits.ts";
import { TemplateRenderer } from "../../tokens/template-renderer.ts";
import type { BackendProfile, Completion, CompletionRequest, Engine } from "../engine.ts";
import type { Http } from "../http.ts";
import { probeLlamaCpp } from "../probe-llamacpp.ts";
import { openLlamaCppSource } from "../remote-llamacpp.ts";
import { CompletionAnswer, samplerSettings } from "./llamacpp-api.ts";
import { sliceLogprobs } from "./llamacpp-logprobs.ts";
import { cutAtStop } from "./llamacpp-stop.ts";

const ENDPOINT = "/completion";
/** Two slices with one seed would draw the same numbers, so each gets its own; any odd step spreads them. */
const SEED_STEP = 0x9e3779b1;
const SEED_RANGE = 2 ** 32;

export interface LlamaCppOptions {
  http: Http;
  /** Bound of one slice with its wait for a slot, ms. */
  turnMs: number;
}

/**
 * llama.cpp's `/completion` by ids. Not streamed, since its streams lose ids inside characters; in slices that go on
 * from the ids, since it frees a slot only when a request ends.
 */
export function createLlamaCppEngine(options: LlamaCppOptions): Engine {
  const { http } = options;
  return {
    kind: "llamacpp",
    probe: (signal): Promise<BackendProfile> => probeLlamaCpp(http, signal),
    complete: (request, signal) => complete(options, request, signal),
    healthy: (signal) =>
      http.text({ method: "GET", path: "/health", ms: LLM_LIMITS.controlMs, signal }).then(
        (answer) => answer.status === 200,
        () => false,
      ),
    remoteRenderer: async (signal) => new TemplateRenderer(await openLlamaCppSource(http, signal)),
  };
}

interface Progress {
  ids: number[];
  logprobs: number[];
  end: Pick<Completion, "finishReason" | "stopReason"> | null;
}

async function complete(
  options: LlamaCppOptions,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<Completion> {
  const start = performance.now();
  const progress: Progress = { ids: [], logprobs: [], end: null };
  let cachedTokens: number | null = null;
  let firstTokenMs: number | null = null;
  while (progress.end === null) {
    const answer = await nextSlice(options, request, progress, signal);
    if (firstTokenMs === null) {
      // The server tells how long sampling took, not when it began: all but the first token's part came after it.
      const later = ((answer.timings?.predicted_ms ?? 0) * (answer.tokens.length - 1)) / answer.tokens.length;
      firstTokenMs = Math.max(0, performance.now() - start - later);
      cachedTokens = answer.timings?.cache_n ?? null;
    }
    await cutAtStop(options.http, { request, progress, answer }, signal);
  }
  return {
    ids: Int32Array.from(progress.ids),
    logprobs: Float32Array.from(progress.logprobs),
    ...progress.end,
    versions: [],
    cachedTokens,
    firstTokenMs,
    generationMs: performance.now() - start,
    endpoint: ENDPOINT,
  };
}

async function nextSlice(
  options: LlamaCppOptions,
  request: CompletionRequest,
  progress: Progress,
  signal: AbortSignal,
): Promise<CompletionAnswer> {
  const { sampling } = request;
  const prompt = [...request.ids, ...progress.ids];
  const answer = await options.http.json(CompletionAnswer, {
    path: ENDPOINT,
    ms: options.turnMs,
    signal,
    body: {
      prompt,
      n_predict: Math.min(LLM_LIMITS.sliceTokensMax, sampling.maxTokens - progress.ids.length),
      n_probs: 1,
      post_sampling_probs: false,
      return_tokens: true,
      cache_prompt: true,
      stream: false,
      stop: sampling.stop,
      seed: sampling.seed === null ? -1 : (sampling.seed + progress.ids.length * SEED_STEP) % SEED_RANGE,
      ...samplerSettings(sampling),
    },
  });
  const logprobs = await sliceLogprobs({ http: options.http, ms: options.turnMs, signal }, prompt, answer);
  progress.ids.push(...answer.tokens);
  progress.logprobs.push(...logprobs);
  return answer;
}
