import { CHAIN_START, hashTurn } from "../../src/trajectory/hash.ts";
import type { TurnDraft } from "../../src/trajectory/ledger.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import type { TurnRecord } from "../../src/trajectory/turn.ts";

/** What an engine and a parser add to a turn of `prompt` new ids and these sampled ones. */
export function aDraft(prompt: number, sampled: readonly number[], over: Partial<TurnDraft> = {}): TurnDraft {
  return {
    promptContent: new Uint8Array(prompt),
    promptMessage: new Int32Array(prompt).fill(-1),
    promptMessages: [],
    sampledIds: Int32Array.from(sampled),
    logprobs: Float32Array.from(sampled, (id) => -id / 100),
    versions: [{ version: "0", start: 0, end: sampled.length }],
    sampling: DEFAULT_SAMPLING,
    finishReason: "stop",
    stopReason: null,
    messageIndex: 1,
    message: { role: "assistant", content: "" },
    parse: "none",
    backendId: "bck_1",
    requestId: "req_1",
    endpoint: "/v1/completions",
    cachedTokens: null,
    queueMs: 0,
    firstTokenMs: null,
    generationMs: 1,
    ...over,
  };
}

/** The chain of these records hashed anew, as a forger with the code would. */
export function rehash(turns: readonly TurnRecord[]): TurnRecord[] {
  let previous = CHAIN_START;
  return turns.map((turn) => {
    previous = hashTurn(previous, turn);
    return { ...turn, hash: previous };
  });
}
