import type { Message } from "./message.ts";
import type { Sampling } from "./sampling.ts";

/** Half-open span [start, end) of tokens that one policy version sampled. */
export interface VersionSpan {
  version: string;
  start: number;
  end: number;
}

export type FinishReason = "stop" | "length" | "abort";

/** What a tool answered, as the trajectory keeps it. */
export interface ToolResult {
  callId: string;
  tool: string;
  output: string;
  /** Null where the tool has no exit code (think, finish, edit) or the process never ended by itself. */
  exitCode: number | null;
  /** The signal that ended the command, as its shell told it; null when none did. */
  signal: string | null;
  timedOut: boolean;
  /** Whether the command wrote more than `output` shows. */
  truncated: boolean;
  /** Names of the files that it left beside its output: the whole of a truncated one, and figures. */
  artifacts: readonly string[];
  ms: number;
}

/**
 * One model call as it came, the unit of durability. Records are linear in the trajectory's length: each holds
 * only the ids it added. `assemble` makes the branches from them and `verify` checks them against those.
 */
export interface TurnRecord {
  /** From 0, over the attempt. */
  index: number;
  /** The branch this turn belongs to, from 0. */
  branch: number;
  /**
   * Length of the context that this prompt shares with the branch it continues (`drift` clean: all of it). On a
   * fork: the longest common prefix with the parent's context, and `parent` names the parent branch.
   */
  contextStart: number;
  parent: number | null;
  drift: "clean" | "fork";
  /** Ids between `contextStart` and the first sampled token: system and user messages, tool answers, scaffold. */
  promptIds: Int32Array;
  /** Of the same length as `promptIds`: 1 where the id is content of a message, 0 where it is template scaffold. */
  promptContent: Uint8Array;
  /** Of the same length: index into the attempt's messages, -1 for scaffold. */
  promptMessage: Int32Array;
  sampledIds: Int32Array;
  /** Natural logarithms, finite and <= 0, one for each sampled id. */
  logprobs: Float32Array;
  /** Over the sampled ids, from 0; they cover all of them without a gap. */
  versions: readonly VersionSpan[];
  sampling: Sampling;
  finishReason: FinishReason;
  /** The id or string that stopped the turn; null at the family's own end token or at a bound. */
  stopReason: number | string | null;
  /** The messages that `promptIds` render: the task's own at first, tools' answers later. They precede `message`. */
  promptMessages: readonly Message[];
  /** Index of the assistant message in the attempt's messages. */
  messageIndex: number;
  message: Message;
  parse: "ok" | "none" | "malformed";
  backendId: string;
  requestId: string;
  endpoint: string;
  cachedTokens: number | null;
  queueMs: number;
  firstTokenMs: number | null;
  generationMs: number;
  /** SHA-256 in hex over the previous turn's hash and all of the above that was sampled or sent. */
  hash: string;
}
