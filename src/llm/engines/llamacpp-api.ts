import { z } from "zod";
import type { Sampling } from "../../trajectory/sampling.ts";

/** llama.cpp's wire shapes: only what is read is named, the rest is let through. */

const Probability = z.looseObject({
  id: z.int(),
  /** Null where it is not finite. */
  logprob: z.number().nullable(),
  top_logprobs: z.array(z.looseObject({ id: z.int(), logprob: z.number().nullable() })).default([]),
});

/** Answer of `/completion`, not streamed. */
export const CompletionAnswer = z.looseObject({
  tokens: z.array(z.int()),
  stop_type: z.enum(["none", "eos", "limit", "word"]),
  stopping_word: z.string().default(""),
  truncated: z.boolean().default(false),
  completion_probabilities: z.array(Probability).default([]),
  timings: z.looseObject({ cache_n: z.int().default(0), predicted_ms: z.number().default(0) }).optional(),
});
export type CompletionAnswer = z.infer<typeof CompletionAnswer>;

/** Answer of `GET /props`. */
export const Props = z.looseObject({
  total_slots: z.int().min(1),
  default_generation_settings: z.looseObject({ n_ctx: z.int().min(1) }),
  model_alias: z.string().default(""),
  model_ftype: z.string().default(""),
  model_path: z.string().default(""),
  chat_template: z.string().default(""),
  eos_token: z.string().default(""),
  build_info: z.string().default(""),
});
export type Props = z.infer<typeof Props>;

/** Answer of `GET /v1/models`. */
export const Models = z.looseObject({
  data: z.array(z.looseObject({ id: z.string(), meta: z.record(z.string(), z.unknown()).nullish() })).min(1),
});

export const Tokens = z.looseObject({ tokens: z.array(z.int()) });

/** Answer of `/tokenize` with pieces: a piece that is no whole UTF-8 text comes as its bytes. */
export const Pieces = z.looseObject({
  tokens: z.array(z.looseObject({ id: z.int(), piece: z.union([z.string(), z.array(z.int())]) })),
});

export const Content = z.looseObject({ content: z.string() });
export const Prompt = z.looseObject({ prompt: z.string() });

/**
 * Sampler settings, every one explicit: the server's own defaults (temperature 0.8, top_k 40, ...) would change what
 * is sampled. Temperature comes before the cuts, as vLLM has it; llama.cpp's own order applies it last.
 */
export function samplerSettings(sampling: Sampling): Record<string, unknown> {
  return {
    temperature: sampling.temperature,
    top_k: sampling.topK === -1 ? 0 : sampling.topK,
    top_p: sampling.topP,
    min_p: sampling.minP,
    repeat_penalty: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    samplers: ["temperature", "min_p", "top_k", "top_p"],
  };
}
