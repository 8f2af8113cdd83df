import { RolloutError } from "../errors.ts";
import type { Branch } from "../trajectory/branch.ts";
import type { TurnRecord } from "../trajectory/turn.ts";
import { type NumberArray, packArrays, unpackArrays } from "./codec.ts";
import type { branches, turns } from "./tables.ts";

export type TurnRow = typeof turns.$inferSelect;
export type BranchRow = typeof branches.$inferSelect;

/** A turn's record as its row. The arrays stand in the order that `fromTurnRow` reads. */
export function toTurnRow(attemptId: string, record: TurnRecord): Omit<TurnRow, "toolResults"> {
  return {
    attemptId,
    number: record.index,
    branch: record.branch,
    parent: record.parent,
    contextStart: record.contextStart,
    drift: record.drift,
    promptTokens: record.promptIds.length,
    sampledTokens: record.sampledIds.length,
    arrays: packArrays([
      record.promptIds,
      record.promptContent,
      record.promptMessage,
      record.sampledIds,
      record.logprobs,
    ]),
    versions: record.versions,
    sampling: record.sampling,
    finishReason: record.finishReason,
    stopReason: record.stopReason,
    promptMessages: record.promptMessages,
    messageIndex: record.messageIndex,
    message: record.message,
    parse: record.parse,
    backendId: record.backendId,
    requestId: record.requestId,
    endpoint: record.endpoint,
    cachedTokens: record.cachedTokens,
    queueMs: record.queueMs,
    firstTokenMs: record.firstTokenMs,
    generationMs: record.generationMs,
    hash: record.hash,
  };
}

/** The inverse of `toTurnRow`. Throws RolloutError store_failed when the arrays are not those of a turn. */
export function fromTurnRow(row: TurnRow): TurnRecord {
  const where = `turn ${row.number} of attempt ${row.attemptId}`;
  const [promptIds, promptContent, promptMessage, sampledIds, logprobs] = unpackArrays(row.arrays);
  return {
    index: row.number,
    branch: row.branch,
    contextStart: row.contextStart,
    parent: row.parent,
    drift: row.drift,
    promptIds: expectArray(promptIds, Int32Array, `prompt ids of ${where}`),
    promptContent: expectArray(promptContent, Uint8Array, `prompt content of ${where}`),
    promptMessage: expectArray(promptMessage, Int32Array, `prompt messages of ${where}`),
    sampledIds: expectArray(sampledIds, Int32Array, `sampled ids of ${where}`),
    logprobs: expectArray(logprobs, Float32Array, `log-probs of ${where}`),
    versions: row.versions,
    sampling: row.sampling,
    finishReason: row.finishReason,
    stopReason: row.stopReason,
    promptMessages: row.promptMessages,
    messageIndex: row.messageIndex,
    message: row.message,
    parse: row.parse,
    backendId: row.backendId,
    requestId: row.requestId,
    endpoint: row.endpoint,
    cachedTokens: row.cachedTokens,
    queueMs: row.queueMs,
    firstTokenMs: row.firstTokenMs,
    generationMs: row.generationMs,
    hash: row.hash,
  };
}

/** A branch as its row. */
export function toBranchRow(attemptId: string, branch: Branch): BranchRow {
  return {
    attemptId,
    number: branch.id,
    parent: branch.parent,
    sharedTokens: branch.sharedTokens,
    promptTokens: branch.promptTokens,
    tokens: branch.tokenIds.length,
    arrays: packArrays([
      branch.tokenIds,
      branch.lossMask,
      branch.logprobs,
      branch.temperatures,
      branch.isContent,
      branch.messageIndex,
    ]),
    versions: branch.versions,
    turns: branch.turns,
  };
}

/** The inverse of `toBranchRow`. Throws RolloutError store_failed when the arrays are not those of a branch. */
export function fromBranchRow(row: BranchRow): Branch {
  const where = `branch ${row.number} of attempt ${row.attemptId}`;
  const [tokenIds, lossMask, logprobs, temperatures, isContent, messageIndex] = unpackArrays(row.arrays);
  return {
    id: row.number,
    parent: row.parent,
    sharedTokens: row.sharedTokens,
    promptTokens: row.promptTokens,
    tokenIds: expectArray(tokenIds, Int32Array, `token ids of ${where}`),
    lossMask: expectArray(lossMask, Uint8Array, `loss mask of ${where}`),
    logprobs: expectArray(logprobs, Float32Array, `log-probs of ${where}`),
    temperatures: expectArray(temperatures, Float32Array, `temperatures of ${where}`),
    isContent: expectArray(isContent, Uint8Array, `content flags of ${where}`),
    messageIndex: expectArray(messageIndex, Int32Array, `message indices of ${where}`),
    versions: row.versions,
    turns: row.turns,
  };
}

function expectArray<Kind extends NumberArray>(
  array: NumberArray | undefined,
  Kind: abstract new (...args: never[]) => Kind,
  what: string,
): Kind {
  if (array instanceof Kind) return array;
  const found = array === undefined ? "nothing" : array.constructor.name;
  throw new RolloutError("store_failed", `a stored blob is damaged: ${what} should be ${Kind.name}, found ${found}`);
}
