import type { z } from "@hono/zod-openapi";
import { RequestError } from "../errors.ts";
import type { JobRequest } from "../job/job.ts";
import type { JobLimits } from "../job/limits.ts";
import type { BackendSpec } from "../llm/backends.ts";
import { DEFAULT_SAMPLING, type Sampling } from "../trajectory/sampling.ts";
import type { BackendSpecWire, LimitsWire, SamplingWire, SubmitWire } from "./schemas.ts";

/** The tasks of a submission, from `task` or `tasks`: exactly one of them. */
export function tasksOf(wire: z.output<typeof SubmitWire>): readonly unknown[] {
  if (wire.task !== undefined && wire.tasks === undefined) return [wire.task];
  if (wire.tasks !== undefined && wire.task === undefined) return wire.tasks;
  const message = wire.task === undefined ? "is missing" : "is given beside tasks";
  throw new RequestError("field_invalid", `task ${message}`, [
    { path: "task", message, accepted: "task (an object) or tasks (an array of them), not both" },
  ]);
}

/**
 * `models` are those that backends serve as policy: with just one of them, that is what a submission without a model means.
 * `limits` are the server's defaults.
 */
export function toJobRequest(
  wire: z.output<typeof SubmitWire>,
  { models, limits }: { models: readonly string[]; limits: JobLimits },
): JobRequest {
  return {
    model: wire.model ?? onlyModel(models),
    sampling: toSampling(wire.sampling),
    limits: toLimits(wire.limits, limits),
    priority: wire.priority,
    stream: wire.stream,
    tokenExact: wire.token_exact,
    labels: wire.labels,
  };
}

const DEFAULT_MODEL = "policy";

/** The model that is meant when none is named. Throws RequestError field_invalid where there are several. */
function onlyModel(models: readonly string[]): string {
  const [only = DEFAULT_MODEL, ...others] = models;
  if (others.length === 0) return only;
  if (models.includes(DEFAULT_MODEL)) return DEFAULT_MODEL;
  const accepted = models.join(", ");
  throw new RequestError("field_invalid", "there are several models", [
    { path: "model", message: "is missing", accepted },
  ]);
}

function toSampling(wire: z.output<typeof SamplingWire>): Sampling {
  return {
    temperature: wire.temperature ?? DEFAULT_SAMPLING.temperature,
    topP: wire.top_p ?? DEFAULT_SAMPLING.topP,
    topK: wire.top_k ?? DEFAULT_SAMPLING.topK,
    minP: wire.min_p ?? DEFAULT_SAMPLING.minP,
    maxTokens: wire.max_tokens ?? DEFAULT_SAMPLING.maxTokens,
    seed: wire.seed ?? DEFAULT_SAMPLING.seed,
    stop: wire.stop ?? DEFAULT_SAMPLING.stop,
  };
}

function toLimits(wire: z.output<typeof LimitsWire>, defaults: JobLimits): JobLimits {
  return {
    turnsMax: wire.turns_max ?? defaults.turnsMax,
    tokensMax: wire.tokens_max ?? defaults.tokensMax,
    initMs: wire.init_ms ?? defaults.initMs,
    runMs: wire.run_ms ?? defaults.runMs,
    evalMs: wire.eval_ms ?? defaults.evalMs,
    toolMs: wire.tool_ms ?? defaults.toolMs,
    attemptsMax: wire.attempts_max ?? defaults.attemptsMax,
    memoryBytes: wire.memory_bytes ?? defaults.memoryBytes,
    diskBytes: wire.disk_bytes ?? defaults.diskBytes,
    inodesMax: wire.inodes_max ?? defaults.inodesMax,
    pidsMax: wire.pids_max ?? defaults.pidsMax,
    openFilesMax: wire.open_files_max ?? defaults.openFilesMax,
    fileBytes: wire.file_bytes ?? defaults.fileBytes,
    cpuMs: wire.cpu_ms ?? defaults.cpuMs,
    outputChars: wire.output_chars ?? defaults.outputChars,
  };
}

export function toBackendSpec(wire: z.output<typeof BackendSpecWire>): BackendSpec {
  return {
    url: wire.url.replace(/\/+$/, ""),
    model: wire.model,
    role: wire.role,
    kind: wire.kind,
    apiKey: wire.api_key,
    weight: wire.weight,
    policyVersion: wire.policy_version,
    tokenizer: wire.tokenizer,
  };
}
