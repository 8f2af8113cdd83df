import { assert } from "../errors.ts";
import type { Branch, BranchTurn } from "./branch.ts";
import type { TurnRecord, VersionSpan } from "./turn.ts";

/**
 * The branches that a chain of turn records describes. A child's shared tokens carry no mask: they are trained in the
 * parent only. Records must be in the order of their indices; asserts that each continues what came before.
 */
export function assemble(turns: readonly TurnRecord[]): Branch[] {
  const drafts: Draft[] = [];
  for (const turn of turns) {
    const draft = drafts[turn.branch] ?? openBranch(drafts, turn);
    assert(draft.length === turn.contextStart, `turn ${turn.index} starts where its branch ends`);
    draft.add(turn);
  }
  return drafts.map((draft) => draft.close());
}

function openBranch(drafts: Draft[], turn: TurnRecord): Draft {
  assert(turn.branch === drafts.length, `turn ${turn.index} opens the next branch`);
  const parent = turn.parent === null ? null : drafts[turn.parent];
  assert(parent !== undefined, `turn ${turn.index} names a parent that exists`);
  const draft = new Draft(turn.branch, turn.parent);
  if (parent) draft.share(parent, turn.contextStart);
  drafts.push(draft);
  return draft;
}

/** A branch while its turns are put together. */
class Draft {
  readonly #id: number;
  readonly #parent: number | null;
  #shared = 0;
  readonly #ids: number[] = [];
  readonly #mask: number[] = [];
  readonly #logprobs: number[] = [];
  readonly #temperatures: number[] = [];
  readonly #content: number[] = [];
  readonly #message: number[] = [];
  readonly #versions: VersionSpan[] = [];
  readonly #turns: BranchTurn[] = [];

  constructor(id: number, parent: number | null) {
    this.#id = id;
    this.#parent = parent;
  }

  get length(): number {
    return this.#ids.length;
  }

  /** Takes over the first `tokens` of the parent as untrained context. */
  share(parent: Draft, tokens: number): void {
    assert(tokens <= parent.length, "a fork lies within its parent");
    this.#shared = tokens;
    for (let at = 0; at < tokens; at += 1) {
      this.#push(parent.#ids[at] ?? 0, parent.#content[at] ?? 0, parent.#message[at] ?? -1);
    }
  }

  add(turn: TurnRecord): void {
    for (const [at, id] of turn.promptIds.entries()) {
      this.#push(id, turn.promptContent[at] ?? 0, turn.promptMessage[at] ?? -1);
    }
    const start = this.length;
    for (const [at, id] of turn.sampledIds.entries()) {
      this.#push(id, 1, turn.messageIndex);
      const position = start + at;
      this.#mask[position] = 1;
      this.#logprobs[position] = turn.logprobs[at] ?? Number.NaN;
      this.#temperatures[position] = turn.sampling.temperature;
    }
    for (const span of turn.versions) this.#addVersion(span.version, start + span.start, start + span.end);
    this.#turns.push({ turn: turn.index, start, end: this.length });
  }

  close(): Branch {
    return {
      id: this.#id,
      parent: this.#parent,
      sharedTokens: this.#shared,
      promptTokens: this.#turns[0]?.start ?? this.length,
      tokenIds: Int32Array.from(this.#ids),
      lossMask: Uint8Array.from(this.#mask),
      logprobs: Float32Array.from(this.#logprobs),
      temperatures: Float32Array.from(this.#temperatures),
      isContent: Uint8Array.from(this.#content),
      messageIndex: Int32Array.from(this.#message),
      versions: this.#versions,
      turns: this.#turns,
    };
  }

  #push(id: number, content: number, message: number): void {
    this.#ids.push(id);
    this.#mask.push(0);
    this.#logprobs.push(0);
    this.#temperatures.push(0);
    this.#content.push(content);
    this.#message.push(message);
  }

  /** Neighbouring spans of one version become one. */
  #addVersion(version: string, start: number, end: number): void {
    const last = this.#versions.at(-1);
    if (last && last.version === version && last.end === start) last.end = end;
    else this.#versions.push({ version, start, end });
  }
}
