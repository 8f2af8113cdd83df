import { z } from "zod";

/** vLLM's wire shapes: only what is read is named, the rest is let through. */

const Usage = z.looseObject({
  completion_tokens: z.int().default(0),
  prompt_tokens_details: z.looseObject({ cached_tokens: z.int().nullish() }).nullish(),
});

/** One event of a streamed `/v1/completions`. A choice without new tokens may lack ids; usage comes with no choice. */
export const CompletionChunk = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        index: z.int().default(0),
        token_ids: z.array(z.int()).nullish(),
        logprobs: z.looseObject({ token_logprobs: z.array(z.number().nullable()) }).nullish(),
        finish_reason: z.string().nullish(),
        stop_reason: z.union([z.int(), z.string()]).nullish(),
      }),
    )
    .default([]),
  usage: Usage.nullish(),
  error: z.unknown().optional(),
});
export type CompletionChunk = z.infer<typeof CompletionChunk>;

const TokenLogprob = z.looseObject({
  /** Of newer servers; older ones write the id into `token` as `token_id:17`. */
  token_id: z.int().nullish(),
  token: z.string().nullish(),
  logprob: z.number().nullable(),
});

const GenerateChoice = z.looseObject({
  index: z.int().default(0),
  token_ids: z.array(z.int()).nullish(),
  logprobs: z.looseObject({ content: z.array(TokenLogprob).nullish() }).nullish(),
  finish_reason: z.string().nullish(),
  stop_reason: z.union([z.int(), z.string()]).nullish(),
  /** Spans over all of the turn's ids; with its last event only. */
  weight_versions: z
    .array(z.looseObject({ version: z.string(), start: z.int().min(0), end: z.int().min(0) }))
    .nullish(),
});

/** One event of a streamed `/inference/v1/generate`, and its answer when not streamed. */
export const GenerateChunk = z.looseObject({
  choices: z.array(GenerateChoice).default([]),
  usage: Usage.nullish(),
  error: z.unknown().optional(),
});
export type GenerateChunk = z.infer<typeof GenerateChunk>;

/** The id that a log-prob of `/inference/v1/generate` is for; null where it does not say. */
export function idOfLogprob(entry: z.infer<typeof TokenLogprob>): number | null {
  if (entry.token_id !== null && entry.token_id !== undefined) return entry.token_id;
  const id = /^token_id:(\d+)$/.exec(entry.token ?? "")?.[1];
  return id === undefined ? null : Number(id);
}

/** Answer of `GET /weight_info`, in development mode. */
export const WeightInfo = z.looseObject({ weight_version: z.string() });

/** Answer of `/v1/completions`, not streamed; used by the probe. */
export const CompletionAnswer = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        token_ids: z.array(z.int()).nullish(),
        logprobs: z
          .looseObject({
            token_logprobs: z.array(z.number().nullable()),
            top_logprobs: z.array(z.record(z.string(), z.number()).nullable()).nullish(),
          })
          .nullish(),
      }),
    )
    .min(1),
  usage: Usage.nullish(),
});

/** Answer of `GET /v1/models`. */
export const Models = z.looseObject({
  data: z
    .array(
      z.looseObject({
        id: z.string(),
        root: z.string().nullish(),
        parent: z.string().nullish(),
        max_model_len: z.int().min(1).nullish(),
      }),
    )
    .min(1),
});

export const Version = z.looseObject({ version: z.string() });

/** Answer of `/tokenize`. */
export const TokenizeAnswer = z.looseObject({
  tokens: z.array(z.int()),
  token_strs: z.array(z.string()).nullish(),
});

/** Answer of `/detokenize`. */
export const DetokenizeAnswer = z.looseObject({ prompt: z.string() });
