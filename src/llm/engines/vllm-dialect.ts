import type { CompletionRequest } from "../engine.ts";
import type { StreamedTurn } from "./streamed-turn.ts";

/** One of vLLM's routes for tokens. Both are streamed. */
export interface VllmDialect {
  readonly endpoint: string;
  /** How a turn's id is written where it is aborted; any other spelling is answered with success and does nothing. */
  readonly abortId: string;
  body(model: string, request: CompletionRequest): Record<string, unknown>;
  /** Adds one event's data to the turn. Throws RolloutError backend_invalid when it is not what is documented. */
  take(turn: StreamedTurn, data: string, request: CompletionRequest): void;
}

/** Every parameter is explicit: a server's generation_config may otherwise bring its own. */
export function samplingBody(request: Pick<CompletionRequest, "sampling" | "stopTokenIds">): Record<string, unknown> {
  const { sampling } = request;
  return {
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
  };
}
