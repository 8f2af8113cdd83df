import type { VersionSpan } from "./turn.ts";

/** Where one turn lies in its branch: sampled tokens are [start, end). */
export interface BranchTurn {
  /** Index of the turn's record in the attempt. */
  turn: number;
  start: number;
  end: number;
}

/**
 * One line of context that was really sent to the model, as trainers get it. All arrays have the length of `tokenIds`;
 * `lossMask` 1 = sampled by the policy and to be trained here (a token shared with the parent is 1 in the parent only);
 * `logprobs` and `temperatures` are 0 where nothing was sampled.
 */
export interface Branch {
  id: number;
  parent: number | null;
  /** Tokens shared with the parent, from the start. */
  sharedTokens: number;
  /** Tokens before the first one that was sampled in this branch: shared tokens and its first prompt. */
  promptTokens: number;
  tokenIds: Int32Array;
  lossMask: Uint8Array;
  logprobs: Float32Array;
  temperatures: Float32Array;
  isContent: Uint8Array;
  /** Index into the attempt's messages, -1 for scaffold. */
  messageIndex: Int32Array;
  /** Spans over the branch; their union covers every masked token. */
  versions: readonly VersionSpan[];
  turns: readonly BranchTurn[];
}
