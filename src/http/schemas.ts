/**
 * Wire shapes of `/v1` (api.md), each mapped to the internal shape field by field in `from-wire.ts` and `to-wire.ts`.
 * They are the OpenAPI document too. Ranges come from the internal schemas, so there is one place for each.
 */
import { z } from "@hono/zod-openapi";
import { JobLimits } from "../job/limits.ts";
import { STATES } from "../job/state.ts";
import { LIMITS } from "../limits.ts";
import { ENGINE_KINDS } from "../llm/engine.ts";
import { Sampling } from "../trajectory/sampling.ts";

const sampling = Sampling.shape;
export const SamplingWire = z
  .strictObject({
    temperature: sampling.temperature.optional(),
    top_p: sampling.topP.optional(),
    top_k: sampling.topK.optional(),
    min_p: sampling.minP.optional(),
    max_tokens: sampling.maxTokens.optional(),
    seed: sampling.seed.optional(),
    stop: sampling.stop.optional(),
  })
  .openapi("Sampling");

const limits = JobLimits.shape;
export const LimitsWire = z
  .strictObject({
    turns_max: limits.turnsMax.optional(),
    tokens_max: limits.tokensMax.optional(),
    init_ms: limits.initMs.optional(),
    run_ms: limits.runMs.optional(),
    eval_ms: limits.evalMs.optional(),
    tool_ms: limits.toolMs.optional(),
    attempts_max: limits.attemptsMax.optional(),
    memory_bytes: limits.memoryBytes.optional(),
    disk_bytes: limits.diskBytes.optional(),
    inodes_max: limits.inodesMax.optional(),
    pids_max: limits.pidsMax.optional(),
    open_files_max: limits.openFilesMax.optional(),
    file_bytes: limits.fileBytes.optional(),
    cpu_ms: limits.cpuMs.optional(),
    output_chars: limits.outputChars.optional(),
  })
  .openapi("Limits");

const TaskRow = z.looseObject({}).openapi({
  anyOf: [{ $ref: "#/components/schemas/Task" }, { type: "object" }],
  description: "a Task, or a row of a known data set as it is",
});
const name = z.string().min(1).max(256);

export const SubmitWire = z
  .strictObject({
    task: TaskRow.optional(),
    tasks: z
      .array(TaskRow)
      .min(1)
      .max(LIMITS.tasksPerRequestMax)
      .optional()
      .openapi({ description: "each becomes a group of its own; give this or `task`" }),
    n: z.int().min(1).max(LIMITS.groupSizeMax).default(1).openapi({ description: "jobs of each task" }),
    model: name.optional().openapi({ description: "default: the one policy model that is registered, else `policy`" }),
    token_exact: z
      .boolean()
      .default(true)
      .openapi({ description: "false takes also servers of text alone; such a job is never trainable" }),
    sampling: SamplingWire.default({}),
    limits: LimitsWire.default({}),
    priority: z.int().min(-1_000_000).max(1_000_000).default(0).openapi({ description: "higher first" }),
    stream: name.nullable().default(null),
    labels: z.record(name, z.string().max(1_024)).default({}),
  })
  .openapi("Submit", {
    example: {
      task: { id: "eggs", handler: "math", prompt: "A box holds 6 eggs. How many eggs are in 5 boxes?", answer: "30" },
      n: 4,
      sampling: { temperature: 1, max_tokens: 256 },
    },
  });

export const SubmittedWire = z
  .object({
    groups: z.array(z.object({ group_id: z.string(), task_id: z.string(), job_ids: z.array(z.string()) })),
  })
  .openapi("Submitted");

export const BackendSpecWire = z
  .strictObject({
    url: z
      .string()
      .max(2_048)
      .regex(/^(https?:\/\/[^\s/?#]+(\/[^\s?#]*)?|(unix|replay):\/[^\0]*)$/, "is no such URL")
      .describe("http://host:port, https://host, unix:/path, or replay:/path of recorded trajectories"),
    model: name.nullable().default(null),
    role: z.enum(["policy", "judge"]).default("policy"),
    kind: z.enum(["auto", ...ENGINE_KINDS]).default("auto"),
    api_key: z.string().min(1).max(4_096).nullable().default(null),
    weight: z.number().gt(0).max(1_000_000).default(1),
    policy_version: name.nullable().default(null),
    tokenizer: z.string().min(1).max(4_096).nullable().default(null),
    probe: z.boolean().default(true),
  })
  .openapi("BackendSpec");

export const ImageSpecWire = z
  .strictObject({
    name: name.optional().openapi({ description: "what to call the image; without, that of the recipe" }),
    recipe: name.optional().openapi({ description: "name of a recipe that the server knows; this or `archive`" }),
    archive: z
      .string()
      .min(1)
      .max(4_096)
      .optional()
      .openapi({ description: "absolute path of a `docker save` archive or OCI layout on the server's machine" }),
  })
  .openapi("ImageSpec");

export const ConsumerPutWire = z
  .strictObject({ committed: z.int().min(0).max(Number.MAX_SAFE_INTEGER) })
  .openapi("ConsumerPut");

/** A whole number in a query. Unlike coercion it takes no blanks, signs, fractions or exponents. */
const queryInt = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,16}$/, "is no whole number")
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .openapi({ type: "integer", minimum: min, maximum: max })
    .describe(`integer from ${min} to ${max}`);

const queryFlag = z.enum(["true", "false"]).transform((text) => text === "true");
const waitSeconds = queryInt(0, LIMITS.waitSecondsMax).optional();
const page = queryInt(1, LIMITS.pageRowsMax).optional();
const sequence = queryInt(0, Number.MAX_SAFE_INTEGER).optional();

export const JobQuery = z.strictObject({ wait_s: waitSeconds });
/** Labels are asked for as `label.NAME=VALUE`, which no object schema names; the route takes them out before. */
export const JobsQuery = z.strictObject({
  state: z.enum(STATES).optional(),
  handler: name.optional(),
  group_id: name.optional(),
  stream: name.optional(),
  after: name.optional().openapi({ description: "the last job id of the page before" }),
  limit: page,
});
export const TrajectoryQuery = z.strictObject({ format: z.enum(["native"]).optional(), partial: queryFlag.optional() });
export const ResultsQuery = z.strictObject({
  after: sequence,
  limit: page,
  wait_s: waitSeconds,
  stream: name.optional(),
  group_id: name.optional(),
  format: z.enum(["native", "none"]).optional(),
});
export const EventsQuery = z.strictObject({ after: sequence });
export const RemoveQuery = z.strictObject({ force: queryFlag.optional() });
