import type { TurnRecord } from "./turn.ts";

/** What stands before the first turn of an attempt. */
export const CHAIN_START = "0".repeat(64);

/**
 * SHA-256 in hex over the previous turn's hash and everything that was sent and sampled in this turn. Times are left
 * out: they say nothing about tokens. The numbers are hashed as little-endian bytes, so a log-prob counts to the bit.
 */
export function hashTurn(previous: string, turn: Omit<TurnRecord, "hash">): string {
  const { temperature, topP, topK, minP, maxTokens, seed, stop } = turn.sampling;
  const header = JSON.stringify([
    previous,
    turn.index,
    turn.branch,
    turn.contextStart,
    turn.parent,
    turn.drift,
    turn.promptIds.length,
    turn.sampledIds.length,
    turn.versions.map((span) => [span.version, span.start, span.end]),
    [temperature, topP, topK, minP, maxTokens, seed, stop],
    turn.finishReason,
    turn.stopReason,
    turn.messageIndex,
    turn.parse,
    turn.backendId,
    turn.requestId,
    turn.endpoint,
  ]);
  const hasher = new Bun.CryptoHasher("sha256");
  hasher.update(header);
  for (const array of [turn.promptIds, turn.promptContent, turn.promptMessage, turn.sampledIds, turn.logprobs]) {
    hasher.update(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
  }
  return hasher.digest("hex");
}
