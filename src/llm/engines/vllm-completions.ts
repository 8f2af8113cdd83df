import { LLM_LIMITS } from "../../limits.ts";
import type { CompletionRequest } from "../engine.ts";
import { faultOfStatus, invalid } from "../fault.ts";
import { parse } from "../http.ts";
import type { StreamedTurn } from "./streamed-turn.ts";
import { CompletionChunk } from "./vllm-api.ts";
import { samplingBody, type VllmDialect } from "./vllm-dialect.ts";

const ENDPOINT = "/v1/completions";
const WHAT = `POST ${ENDPOINT}`;

/** The route that every vLLM has. It does not say which weights sampled a token. */
export const completionsDialect: VllmDialect = {
  endpoint: ENDPOINT,
  abortId: "cmpl-{id}-0",
  body: (model, request: CompletionRequest) => ({
    model,
    prompt: Array.from(request.ids),
    n: 1,
    ...samplingBody(request),
    return_token_ids: true,
    cache_salt: request.cacheSalt,
    request_id: request.requestId,
    session_id: request.sessionId,
    stream: true,
    stream_options: { include_usage: true },
    stream_interval: LLM_LIMITS.streamIntervalTokens,
  }),
  take: (turn, data) => takeCompletionChunk(turn, parse(CompletionChunk, data, WHAT)),
};

/** Adds what an event brought. Throws RolloutError backend_invalid when ids and log-probs do not fit. */
export function takeCompletionChunk(turn: StreamedTurn, chunk: CompletionChunk): void {
  if (chunk.error !== undefined) throw faultOfStatus(500, JSON.stringify({ error: chunk.error }), WHAT);
  turn.cachedTokens = chunk.usage?.prompt_tokens_details?.cached_tokens ?? turn.cachedTokens;
  for (const choice of chunk.choices) {
    if (choice.index !== 0) throw invalid(WHAT, `choice ${choice.index} of one that was asked for`);
    const ids = choice.token_ids ?? [];
    const logprobs = choice.logprobs?.token_logprobs ?? [];
    if (ids.length !== logprobs.length) throw invalid(WHAT, `${ids.length} ids but ${logprobs.length} log-probs`);
    turn.ids.push(...ids);
    turn.logprobs.push(...logprobs.map((value) => value ?? Number.NaN));
    turn.finish = choice.finish_reason ?? turn.finish;
    turn.stopReason = choice.stop_reason ?? turn.stopReason;
  }
}
