import { z } from "zod";

/** Sampling parameters of a job; every one is sent explicitly, so no server default can slip in. */
export const Sampling = z.strictObject({
  temperature: z.number().min(0).max(2).describe("0 is greedy"),
  topP: z.number().gt(0).max(1),
  topK: z.int().min(-1).max(1_000_000).describe("-1 is off"),
  minP: z.number().min(0).max(1),
  maxTokens: z.int().min(1).max(1_048_576).describe("sampled tokens of one turn"),
  seed: z.int().min(0).max(4_294_967_295).nullable().describe("null: the server draws"),
  stop: z.array(z.string().min(1).max(256)).max(16).describe("strings that end a turn"),
});
export type Sampling = z.infer<typeof Sampling>;

export const DEFAULT_SAMPLING: Sampling = {
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  maxTokens: 1_024,
  seed: null,
  stop: [],
};
