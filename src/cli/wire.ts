import { z } from "zod";

/** What commands read of the server's answers; fields they do not show are not named. */
export const WireOutcome = z.object({
  status: z.string(),
  end_reason: z.string(),
  reward: z.number().nullable(),
  rewards: z.record(z.string(), z.number()),
  trainable: z.boolean(),
  grading: z.string().nullable(),
  error: z.object({ reason: z.string(), blame: z.string(), stage: z.string(), detail: z.string() }).nullable(),
  turns: z.number(),
  prompt_tokens: z.number(),
  sampled_tokens: z.number(),
  policy_version_min: z.string().nullable(),
  policy_version_max: z.string().nullable(),
  ledger: z.string(),
});

export const WireJob = z.object({
  id: z.string(),
  group_id: z.string(),
  task_id: z.string(),
  handler: z.string(),
  model: z.string(),
  state: z.string(),
  created_at: z.string(),
  finished_at: z.string().nullable(),
  outcome: WireOutcome.nullable(),
  timing: z.record(z.string(), z.number()),
  attempts: z.array(
    z.object({
      id: z.string(),
      stage: z.string(),
      end_reason: z.string().nullable(),
      backend_ids: z.array(z.string()),
    }),
  ),
  artifacts: z.array(z.object({ name: z.string(), bytes: z.number() })),
});
export type WireJob = z.infer<typeof WireJob>;

export const WireSubmitted = z.object({
  groups: z.array(z.object({ group_id: z.string(), task_id: z.string(), job_ids: z.array(z.string()) })),
});
export type WireSubmitted = z.infer<typeof WireSubmitted>;

export const WireResults = z.object({
  results: z.array(z.object({ seq: z.number(), job: WireJob, trajectory: z.unknown().optional() })),
  next: z.number(),
  last: z.number(),
});
export type WireResult = z.infer<typeof WireResults>["results"][number];

export const WireBackend = z.object({
  id: z.string(),
  url: z.string(),
  model: z.string().nullable(),
  role: z.string(),
  kind: z.string(),
  state: z.string(),
  detail: z.string().nullable().optional(),
  policy_version: z.string(),
  profile: z.record(z.string(), z.unknown()).nullable(),
  load: z.record(z.string(), z.unknown()),
});
export type WireBackend = z.infer<typeof WireBackend>;
export const WireBackends = z.object({ backends: z.array(WireBackend) });
