import { wireTime } from "../clock.ts";
import type { Attempt, Job, JobTiming } from "../job/job.ts";
import type { BackendView } from "../llm/backends.ts";
import { outcomeData } from "../store/event-data.ts";
import type { Consumer, Group } from "../store/store.ts";
import type { BackendWire, GroupWire, JobWire } from "./answers.ts";

export function jobToWire(job: Job): JobWire {
  return {
    id: job.id,
    group_id: job.groupId,
    task_id: job.taskId,
    handler: job.handler,
    sample: job.sample,
    model: job.model,
    stream: job.stream,
    token_exact: job.tokenExact,
    labels: { ...job.labels },
    state: job.state,
    priority: job.priority,
    created_at: wireTime(job.createdAtMs),
    finished_at: job.finishedAtMs === null ? null : wireTime(job.finishedAtMs),
    outcome: job.outcome && outcomeData(job.outcome),
    timing: timingToWire(job.timing),
    attempts: job.attempts.map(attemptToWire),
    artifacts: job.artifacts.map(({ name, bytes }) => ({ name, bytes })),
  };
}

export function groupToWire(group: Group): GroupWire {
  const states = group.jobs.map((job) => job.state);
  const all = (state: Job["state"]) => states.every((own) => own === state);
  return {
    id: group.id,
    task_id: group.taskId,
    state: all("finished") ? "finished" : all("queued") ? "queued" : "running",
    created_at: wireTime(group.createdAtMs),
    rewards: group.jobs.map((job) => job.outcome?.reward ?? null),
    jobs: group.jobs.map(jobToWire),
  };
}

/** The API key stays in the server. */
export function backendToWire(view: BackendView): BackendWire {
  return {
    id: view.id,
    url: view.url,
    model: view.model,
    role: view.role,
    kind: view.kind,
    weight: view.weight,
    policy_version: view.policyVersion,
    tokenizer: view.tokenizer,
    state: view.state,
    detail: view.detail,
    profile: view.profile && {
      kind: view.profile.kind,
      version: view.profile.version,
      model: view.profile.model,
      context_tokens_max: view.profile.contextTokensMax,
      slots: view.profile.slots,
      kv_tokens: view.profile.kvTokens,
      logprobs_mode: view.profile.logprobsMode,
      renderer: view.profile.renderer,
      endpoint: view.profile.endpoint,
      token_exact: view.profile.tokenExact,
      tells_versions: view.profile.tellsVersions,
      abort: view.profile.abort,
      weights: view.profile.weights,
      stream_interval: view.profile.streamInterval,
      dev_mode: view.profile.devMode,
      notes: [...view.profile.notes],
      weights_identity: view.profile.weightsIdentity,
    },
    load: { jobs: view.load.jobs, turns: view.load.turns, reserved_tokens: view.load.reservedTokens },
    created_at: wireTime(view.createdAtMs),
  };
}

export function consumerToWire(consumer: Consumer) {
  return { name: consumer.name, committed: consumer.committed, updated_at: wireTime(consumer.updatedAtMs) };
}

function attemptToWire(attempt: Attempt): JobWire["attempts"][number] {
  return {
    id: attempt.id,
    started_at: wireTime(attempt.startedAtMs),
    ended_at: attempt.endedAtMs === null ? null : wireTime(attempt.endedAtMs),
    stage: attempt.stage,
    end_reason: attempt.endReason,
    backend_ids: [...attempt.backendIds],
    error: attempt.error,
  };
}

function timingToWire(timing: JobTiming): JobWire["timing"] {
  return {
    queued_ms: Math.round(timing.queuedMs),
    init_ms: Math.round(timing.initMs),
    ready_ms: Math.round(timing.readyMs),
    run_ms: Math.round(timing.runMs),
    llm_ms: Math.round(timing.llmMs),
    tool_ms: Math.round(timing.toolMs),
    awaiting_eval_ms: Math.round(timing.awaitingEvalMs),
    eval_ms: Math.round(timing.evalMs),
    total_ms: Math.round(timing.totalMs),
  };
}
