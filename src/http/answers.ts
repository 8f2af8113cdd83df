/** Shapes of answers, for the OpenAPI document and as the types that `to-wire.ts` must give. */
import { z } from "@hono/zod-openapi";
import { STATES } from "../job/state.ts";

const time = z.string().openapi({ description: "RFC 3339, UTC, milliseconds", example: "2026-11-30T18:00:00.000Z" });
const count = z.number().openapi({ type: "integer" });
const ms = z.number().openapi({ description: "milliseconds" });
const stage = z.enum(["init", "run", "eval"]);

export const JobErrorWire = z
  .object({
    reason: z.string(),
    blame: z.enum(["none", "policy", "infra", "task"]),
    stage,
    detail: z.string(),
  })
  .openapi("JobError");

export const OutcomeWire = z
  .object({
    status: z.enum(["completed", "truncated", "cancelled", "failed"]),
    end_reason: z.string(),
    reward: z.number().nullable().openapi({ description: "null unless a grader gave it" }),
    rewards: z.record(z.string(), z.number()),
    trainable: z.boolean(),
    grading: z.enum(["separate", "shared_process"]).nullable(),
    error: JobErrorWire.nullable(),
    turns: count,
    prompt_tokens: count,
    sampled_tokens: count,
    policy_version_min: z.string().nullable(),
    policy_version_max: z.string().nullable(),
    ledger: z.enum(["exact", "forked", "text", "rejected"]),
  })
  .openapi("Outcome");

const Timing = z
  .object({
    queued_ms: ms,
    init_ms: ms,
    ready_ms: ms,
    run_ms: ms,
    llm_ms: ms,
    tool_ms: ms,
    awaiting_eval_ms: ms,
    eval_ms: ms,
    total_ms: ms,
  })
  .openapi("Timing");

export const JobWire = z
  .object({
    id: z.string(),
    group_id: z.string(),
    task_id: z.string(),
    handler: z.string(),
    sample: count.openapi({ description: "place among its siblings, from 0" }),
    model: z.string(),
    stream: z.string().nullable(),
    token_exact: z.boolean(),
    labels: z.record(z.string(), z.string()),
    state: z.enum(STATES),
    priority: count,
    created_at: time,
    finished_at: time.nullable(),
    outcome: OutcomeWire.nullable(),
    timing: Timing,
    attempts: z.array(
      z.object({
        id: z.string(),
        started_at: time,
        ended_at: time.nullable(),
        stage,
        end_reason: z.string().nullable(),
        backend_ids: z.array(z.string()),
        error: JobErrorWire.nullable(),
      }),
    ),
    artifacts: z.array(z.object({ name: z.string(), bytes: count })),
  })
  .openapi("Job");
export type JobWire = z.infer<typeof JobWire>;

export const JobsWire = z.object({ jobs: z.array(JobWire), next: z.string().nullable() }).openapi("Jobs");

export const GroupWire = z
  .object({
    id: z.string(),
    task_id: z.string(),
    state: z.enum(["queued", "running", "finished"]),
    created_at: time,
    rewards: z.array(z.number().nullable()).openapi({ description: "of each job, in the order of `jobs`" }),
    jobs: z.array(JobWire),
  })
  .openapi("Group");
export type GroupWire = z.infer<typeof GroupWire>;

const Span = z.object({ version: z.string(), start: count, end: count });
const numbers = z.array(z.number());
export const TurnWire = z
  .object({
    index: count,
    start: count,
    end: count,
    backend_id: z.string(),
    request_id: z.string(),
    endpoint: z.string(),
    sampling: z.record(z.string(), z.unknown()),
    finish_reason: z.enum(["stop", "length", "abort"]),
    stop_reason: z.union([z.number(), z.string()]).nullable(),
    drift: z.enum(["clean", "fork"]),
    cached_tokens: count.nullable(),
    queue_ms: ms,
    first_token_ms: ms.nullable(),
    generation_ms: ms,
    parse: z.enum(["ok", "none", "malformed"]),
    hash: z.string(),
    tool_results: z.array(
      z.object({
        call_id: z.string(),
        tool: z.string(),
        output: z.string(),
        exit_code: count.nullable(),
        signal: z.string().nullable(),
        timed_out: z.boolean(),
        truncated: z.boolean(),
        artifacts: z.array(z.string()),
        ms,
      }),
    ),
  })
  .openapi("Turn");
export type TurnWire = z.infer<typeof TurnWire>;

export const BranchWire = z
  .object({
    id: count,
    parent: count.nullable(),
    shared_tokens: count,
    prompt_tokens: count,
    token_ids: numbers,
    loss_mask: numbers,
    logprobs: numbers,
    temperatures: numbers,
    is_content: numbers,
    message_index: numbers,
    versions: z.array(Span),
    turns: z.array(TurnWire),
  })
  .openapi("Branch");
export type BranchWire = z.infer<typeof BranchWire>;

export const TrajectoryWire = z
  .object({
    schema_version: z.literal(1),
    id: z.string(),
    job_id: z.string(),
    group_id: z.string(),
    task_id: z.string(),
    handler: z.string(),
    model: z.string(),
    tokenizer_hash: z.string().nullable(),
    template_hash: z.string().nullable(),
    renderer: z.enum(["local", "remote"]).nullable(),
    logprobs_mode: z.enum(["raw", "processed"]).nullable(),
    hash: z.string().nullable().openapi({ description: "hash of the last turn, which covers all before it" }),
    outcome: OutcomeWire.nullable(),
    messages: z.array(z.record(z.string(), z.unknown())),
    tools: z.array(z.record(z.string(), z.unknown())),
    network: z
      .object({
        attempts: z.array(
          z.object({
            at: z.string(),
            host: z.string().nullable(),
            port: z.number().nullable(),
            refused: z.string().nullable().openapi({ description: "why it was not let through" }),
            address: z.string().nullable(),
            bytes_sent: z.number(),
            bytes_received: z.number(),
          }),
        ),
        left_out: z.number(),
      })
      .nullable()
      .openapi({ description: "what the sandbox asked of the network; null when it had none" }),
    branches: z.array(BranchWire),
    evaluation: z
      .object({
        reward: z.number(),
        rewards: z.record(z.string(), z.number()),
        report: z.record(z.string(), z.unknown()),
        log: z.string(),
        grading: z.enum(["separate", "shared_process"]),
      })
      .nullable(),
  })
  .openapi("Trajectory");
export type TrajectoryWire = z.infer<typeof TrajectoryWire>;

export const ResultsWire = z
  .object({
    results: z.array(z.object({ seq: count, job: JobWire, trajectory: TrajectoryWire.nullable().optional() })),
    next: count,
    last: count,
  })
  .openapi("Results");

export const ImageWire = z
  .object({
    name: z.string(),
    id: z.string().openapi({ description: "changes when the content does" }),
    source: z.string(),
    bytes: count.nullable(),
    in_use: count.openapi({ description: "sandboxes of this server" }),
    last_used_at: time.nullable(),
  })
  .openapi("Image");

export const ImageBuildWire = z
  .object({
    name: z.string(),
    state: z.enum(["building", "built", "failed"]),
    id: z.string().nullable(),
    step: z.string(),
    steps_done: count,
    steps: count,
    line: z.string().nullable().openapi({ description: "what the program of this step wrote last" }),
    error: z.string().nullable(),
    started_at: time,
    ended_at: time.nullable(),
  })
  .openapi("ImageBuild");

export const ImageDetailWire = z
  .object({ name: z.string(), image: ImageWire.nullable(), build: ImageBuildWire.nullable() })
  .openapi("ImageDetail");

export const ConsumerWire = z.object({ name: z.string(), committed: count, updated_at: time }).openapi("Consumer");

export const BackendWire = z
  .object({
    id: z.string(),
    url: z.string(),
    model: z.string().nullable(),
    role: z.enum(["policy", "judge"]),
    kind: z.string(),
    weight: z.number(),
    policy_version: z.string(),
    tokenizer: z.string().nullable(),
    state: z.enum(["probing", "healthy", "unhealthy", "draining", "sleeping"]),
    detail: z.string().nullable(),
    profile: z.record(z.string(), z.unknown()).nullable(),
    load: z.object({ jobs: count, turns: count, reserved_tokens: count }),
    created_at: time,
  })
  .openapi("Backend");
export type BackendWire = z.infer<typeof BackendWire>;
