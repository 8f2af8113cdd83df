import type { Outcome } from "../job/job.ts";
import type { State } from "../job/state.ts";
import type { ToolResult, TurnRecord } from "../trajectory/turn.ts";

/** Events carry wire shape, since they are told as they were when they happened (api.md, Events). */
export type EventData = Readonly<Record<string, unknown>>;

export function stateData(jobId: string, from: State, to: State): EventData {
  return { job_id: jobId, from, to };
}

export function turnData(jobId: string, record: TurnRecord): EventData {
  return {
    job_id: jobId,
    turn: record.index,
    sampled_tokens: record.sampledIds.length,
    finish_reason: record.finishReason,
  };
}

export function toolData(jobId: string, turn: number, result: ToolResult): EventData {
  return { job_id: jobId, turn, tool: result.tool, exit_code: result.exitCode, ms: result.ms };
}

export function finishedData(jobId: string, outcome: Outcome): EventData {
  return { job_id: jobId, outcome: outcomeData(outcome) };
}

/** An outcome in wire shape, field by field; also what `GET /v1/jobs/{id}` shows. */
export function outcomeData(outcome: Outcome) {
  return {
    status: outcome.status,
    end_reason: outcome.endReason,
    reward: outcome.reward,
    rewards: { ...outcome.rewards },
    trainable: outcome.trainable,
    grading: outcome.grading,
    error: outcome.error && {
      reason: outcome.error.reason,
      blame: outcome.error.blame,
      stage: outcome.error.stage,
      detail: outcome.error.detail,
    },
    turns: outcome.turns,
    prompt_tokens: outcome.promptTokens,
    sampled_tokens: outcome.sampledTokens,
    policy_version_min: outcome.policyVersionMin,
    policy_version_max: outcome.policyVersionMax,
    ledger: outcome.ledger,
  };
}
