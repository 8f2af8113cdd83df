import { wireTime } from "../clock.ts";
import type { NetworkLog } from "../network-rule.ts";
import { outcomeData } from "../store/event-data.ts";
import type { StoredTrajectory } from "../store/store.ts";
import { assemble } from "../trajectory/assemble.ts";
import type { Branch, BranchTurn } from "../trajectory/branch.ts";
import type { Message } from "../trajectory/message.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { ToolResult } from "../trajectory/turn.ts";
import type { BranchWire, TrajectoryWire, TurnWire } from "./answers.ts";

/**
 * A trajectory in its native wire form. Of an attempt that has not ended RUN, the branches are assembled from the turns
 * so far, and the messages are those that were sent and sampled.
 */
export function trajectoryToWire(stored: StoredTrajectory): TrajectoryWire {
  const { job, model, evaluation } = stored;
  const branches = stored.branches.length > 0 ? stored.branches : assemble(stored.turns);
  const messages = stored.messages.length > 0 ? stored.messages : messagesSoFar(stored);
  return {
    schema_version: 1,
    id: stored.id,
    job_id: job.id,
    group_id: job.groupId,
    task_id: job.taskId,
    handler: job.handler,
    model: job.model,
    tokenizer_hash: model?.tokenizerHash ?? null,
    template_hash: model?.templateHash ?? null,
    renderer: model?.renderer ?? null,
    logprobs_mode: model?.logprobsMode ?? null,
    hash: stored.turns.at(-1)?.hash ?? null,
    outcome: job.outcome && outcomeData(job.outcome),
    messages: messages.map(messageToWire),
    tools: stored.tools.map(({ name, description, parameters }) => ({ name, description, parameters })),
    network: stored.network && networkToWire(stored.network),
    branches: branches.map((branch) => branchToWire(branch, stored)),
    evaluation: evaluation && {
      reward: evaluation.reward,
      rewards: { ...evaluation.rewards },
      report: { ...evaluation.report },
      log: evaluation.log,
      grading: evaluation.grading,
    },
  };
}

function networkToWire({ attempts, leftOut }: NetworkLog): NonNullable<TrajectoryWire["network"]> {
  return {
    attempts: attempts.map((attempt) => ({
      at: wireTime(attempt.atMs),
      host: attempt.host,
      port: attempt.port,
      refused: attempt.refused,
      address: attempt.address,
      bytes_sent: attempt.bytesSent,
      bytes_received: attempt.bytesReceived,
    })),
    left_out: leftOut,
  };
}

function branchToWire(branch: Branch, stored: StoredTrajectory): BranchWire {
  return {
    id: branch.id,
    parent: branch.parent,
    shared_tokens: branch.sharedTokens,
    prompt_tokens: branch.promptTokens,
    token_ids: Array.from(branch.tokenIds),
    loss_mask: Array.from(branch.lossMask),
    logprobs: Array.from(branch.logprobs),
    temperatures: Array.from(branch.temperatures),
    is_content: Array.from(branch.isContent),
    message_index: Array.from(branch.messageIndex),
    versions: branch.versions.map(({ version, start, end }) => ({ version, start, end })),
    turns: branch.turns.flatMap((place) => turnToWire(place, stored) ?? []),
  };
}

function turnToWire(place: BranchTurn, stored: StoredTrajectory): TurnWire | null {
  const record = stored.turns[place.turn];
  if (!record) return null;
  return {
    index: record.index,
    start: place.start,
    end: place.end,
    backend_id: record.backendId,
    request_id: record.requestId,
    endpoint: record.endpoint,
    sampling: samplingToWire(record.sampling),
    finish_reason: record.finishReason,
    stop_reason: record.stopReason,
    drift: record.drift,
    cached_tokens: record.cachedTokens,
    queue_ms: Math.round(record.queueMs),
    first_token_ms: record.firstTokenMs === null ? null : Math.round(record.firstTokenMs),
    generation_ms: Math.round(record.generationMs),
    parse: record.parse,
    hash: record.hash,
    tool_results: (stored.toolResults[place.turn] ?? []).map(toolResultToWire),
  };
}

function samplingToWire(sampling: Sampling): Record<string, unknown> {
  return {
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    max_tokens: sampling.maxTokens,
    seed: sampling.seed,
    stop: sampling.stop,
  };
}

function toolResultToWire(result: ToolResult): TurnWire["tool_results"][number] {
  return {
    call_id: result.callId,
    tool: result.tool,
    output: result.output,
    exit_code: result.exitCode,
    // Turns of an older server have neither.
    signal: result.signal ?? null,
    timed_out: result.timedOut,
    truncated: result.truncated,
    artifacts: [...(result.artifacts ?? [])],
    ms: result.ms,
  };
}

function messageToWire(message: Message): Record<string, unknown> {
  return {
    role: message.role,
    content: message.content,
    ...(message.toolCalls === undefined
      ? {}
      : { tool_calls: message.toolCalls.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })) }),
    ...(message.toolCallId === undefined ? {} : { tool_call_id: message.toolCallId }),
    ...(message.name === undefined ? {} : { name: message.name }),
    ...(message.reasoning === undefined ? {} : { reasoning: message.reasoning }),
  };
}

/** The messages that the turns sent and got; what a tool answered to the last of them comes with the next. */
function messagesSoFar(stored: StoredTrajectory): readonly Message[] {
  return stored.turns.flatMap((record) => [...record.promptMessages, record.message]);
}
