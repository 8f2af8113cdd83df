import { z } from "zod";
import type { Sampling } from "../../trajectory/sampling.ts";

/** SGLang's wire shapes: only what is read is named, the rest is let through. */

/** Log-prob, id, and the text when it was asked for. */
const TokenLogprob = z.tuple([z.number().nullable(), z.int()]).rest(z.unknown());

/** An answer of `/generate`, and each event of a streamed one. */
export const GenerateAnswer = z.looseObject({
  output_ids: z.array(z.int()).nullish(),
  meta_info: z
    .looseObject({
      /** Null in a stream until its end. */
      finish_reason: z
        .looseObject({
          type: z.string(),
          matched: z.union([z.int(), z.string(), z.array(z.int())]).nullish(),
          /** Of an abort that is an error. */
          message: z.string().nullish(),
          status_code: z.int().nullish(),
        })
        .nullish(),
      completion_tokens: z.int().nullish(),
      cached_tokens: z.int().nullish(),
      weight_version: z.string().nullish(),
      output_token_logprobs: z.array(TokenLogprob).nullish(),
      output_top_logprobs: z.array(z.array(TokenLogprob).nullable()).nullish(),
    })
    .nullish(),
  error: z.unknown().optional(),
});
export type GenerateAnswer = z.infer<typeof GenerateAnswer>;

/** Answer of `/model_info` (`/get_model_info` in older servers). */
export const ModelInfo = z.looseObject({
  model_path: z.string(),
  tokenizer_path: z.string().nullish(),
  weight_version: z.string().nullish(),
});

/** Answer of `/server_info` (`/get_server_info` in older servers). */
export const ServerInfo = z.looseObject({
  version: z.string().nullish(),
  served_model_name: z.string().nullish(),
  context_length: z.int().nullish(),
  max_total_num_tokens: z.int().min(1).nullish(),
  max_running_requests: z.int().min(1).nullish(),
});

/** Every parameter is explicit: the server may take its defaults from the model's generation_config. */
export function samplingParams(sampling: Sampling, stopTokenIds: readonly number[]): Record<string, unknown> {
  return {
    max_new_tokens: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    frequency_penalty: 0,
    presence_penalty: 0,
    repetition_penalty: 1,
    ...(sampling.seed === null ? {} : { sampling_seed: sampling.seed }),
    ...(sampling.stop.length === 0 ? {} : { stop: sampling.stop }),
    stop_token_ids: [...stopTokenIds],
    min_new_tokens: 0,
    n: 1,
    ignore_eos: false,
    skip_special_tokens: false,
    // The stopping id stays in the ids.
    no_stop_trim: true,
  };
}
