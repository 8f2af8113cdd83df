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
