import { LLM_LIMITS } from "../../limits.ts";
import type { CompletionRequest } from "../engine.ts";
import { faultOfStatus, invalid } from "../fault.ts";
import { parse } from "../http.ts";
import { namedSpans, type StreamedTurn } from "./streamed-turn.ts";
import { GenerateChunk, idOfLogprob } from "./vllm-api.ts";
import { samplingBody, type VllmDialect } from "./vllm-dialect.ts";

const ENDPOINT = "/inference/v1/generate";
const WHAT = `POST ${ENDPOINT}`;

/** The route by ids alone. It says which weights sampled each token, also across an update in the middle of a turn. */
export const generateDialect: VllmDialect = {
  endpoint: ENDPOINT,
  abortId: "generate-tokens-{id}",
  body: (model, request) => ({
    model,
    token_ids: Array.from(request.ids),
    sampling_params: { n: 1, ...samplingBody(request), stream_interval: LLM_LIMITS.streamIntervalTokens },
    output_mode: "tokens",
    cache_salt: request.cacheSalt,
    request_id: request.requestId,
    stream: true,
    stream_options: { include_usage: true },
  }),
  take: (turn, data, request) => take(turn, parse(GenerateChunk, data, WHAT), request),
};

function take(turn: StreamedTurn, chunk: GenerateChunk, request: CompletionRequest): void {
  if (chunk.error !== undefined) throw faultOfStatus(500, JSON.stringify({ error: chunk.error }), WHAT);
  turn.cachedTokens = chunk.usage?.prompt_tokens_details?.cached_tokens ?? turn.cachedTokens;
  for (const choice of chunk.choices) {
    if (choice.index !== 0) throw invalid(WHAT, `choice ${choice.index} of one that was asked for`);
    const ids = choice.token_ids ?? [];
    const logprobs = choice.logprobs?.content ?? [];
    if (ids.length !== logprobs.length) throw invalid(WHAT, `${ids.length} ids but ${logprobs.length} log-probs`);
    for (const [index, entry] of logprobs.entries()) {
      const id = idOfLogprob(entry);
      if (id !== ids[index]) throw invalid(WHAT, `a log-prob of id ${id} where id ${ids[index]} was sampled`);
      turn.logprobs.push(entry.logprob ?? Number.NaN);
    }
    turn.ids.push(...ids);
    turn.finish = choice.finish_reason ?? turn.finish;
    turn.stopReason = choice.stop_reason ?? turn.stopReason;
    if (choice.weight_versions) turn.versions = namedSpans(choice.weight_versions, request.cacheSalt);
  }
}
