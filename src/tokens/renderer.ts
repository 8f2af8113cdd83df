import type { Message, ToolSchema } from "../trajectory/message.ts";

/** Ids of a rendered piece of a conversation, with where each came from. All three have one length. */
export interface Rendered {
  ids: Int32Array;
  /** 1 where the id is text of a message's content, 0 where it is template scaffold. */
  content: Uint8Array;
  /** Index into the messages given, -1 for scaffold. */
  message: Int32Array;
}

/**
 * Chat template and tokenizer of one model. Two implementations: local (jinja and tokenizer files, in a Worker)
 * and remote (the model server's own routes). Implementations may be asked by many jobs at once.
 */
export interface Renderer {
  readonly kind: "local" | "remote";
  /** Hashes of the tokenizer's and the template's bytes, hex; of the server's answers where no files are known. */
  readonly tokenizerHash: string;
  readonly templateHash: string;
  /** Ids at which a turn ends by the model's own decision, the family's end-of-turn token first. */
  readonly endIds: readonly number[];
  /** The whole conversation and the generation prompt: only ever used for a branch's first turn. */
  renderPrompt(messages: readonly Message[], tools: readonly ToolSchema[]): Promise<Rendered>;
  /**
   * What follows a sampled turn: the rest of that turn's scaffold, `added` (tool or user messages, never assistant
   * ones) and the generation prompt. `endedByModel` is false when the turn was cut before its end token: the delta
   * then begins with that token.
   */
  renderDelta(added: readonly Message[], tools: readonly ToolSchema[], endedByModel: boolean): Promise<Rendered>;
  /** Text of ids; special tokens are left out unless `keepSpecial`. */
  decode(ids: Int32Array, keepSpecial: boolean): Promise<string>;
  /** The single id of a marker such as `<tool_call>`; null where the tokenizer has no such added token. */
  markerId(marker: string): number | null;
}
