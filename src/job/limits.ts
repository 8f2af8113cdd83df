import { z } from "zod";

/** Bounds of one job. Times count active time of their stage; queueing is not counted. */
export const JobLimits = z.strictObject({
  turnsMax: z.int().min(1).max(500).describe("model calls of RUN"),
  tokensMax: z.int().min(1).max(4_194_304).describe("sampled tokens of RUN"),
  initMs: z.int().min(100).max(3_600_000).describe("active time of INIT, ms"),
  runMs: z.int().min(100).max(86_400_000).describe("active time of RUN, ms"),
  evalMs: z.int().min(100).max(7_200_000).describe("active time of EVAL, ms"),
  toolMs: z.int().min(50).max(3_600_000).describe("one tool call, ms"),
  attemptsMax: z.int().min(1).max(10).describe("tries before an infrastructure failure is final"),
  memoryBytes: z.int().min(16_777_216).max(1_099_511_627_776).describe("address space of one process, bytes"),
  diskBytes: z.int().min(1_048_576).max(1_099_511_627_776).describe("writable layer of the sandbox, bytes"),
  pidsMax: z.int().min(8).max(32_768).describe("processes and threads of the sandbox"),
});
export type JobLimits = z.infer<typeof JobLimits>;

export const DEFAULT_LIMITS: JobLimits = {
  turnsMax: 30,
  tokensMax: 32_768,
  initMs: 120_000,
  runMs: 900_000,
  evalMs: 300_000,
  toolMs: 30_000,
  attemptsMax: 3,
  memoryBytes: 2_147_483_648,
  diskBytes: 1_073_741_824,
  pidsMax: 256,
};
