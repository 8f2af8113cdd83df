import { assert } from "../errors.ts";
import { CHAIN_START, hashTurn } from "./hash.ts";
import type { TurnRecord, VersionSpan } from "./turn.ts";

/** Where the next prompt stands relative to what was already sent. */
export interface TurnPlan {
  branch: number;
  parent: number | null;
  contextStart: number;
  drift: "clean" | "fork";
  /** The whole prompt, as it goes to the engine. */
  ids: Int32Array;
}

/** What the engine and the parser add to a plan. */
export type TurnDraft = Omit<
  TurnRecord,
  "index" | "branch" | "parent" | "contextStart" | "drift" | "promptIds" | "hash"
>;

/**
 * The tokens of one attempt while it runs. What was sampled is never rendered again: each prompt must begin with all
 * that was sent and sampled before, at id level. A prompt that does not opens a new branch at the longest common
 * prefix with any branch so far.
 */
export class Ledger {
  /** Context of each branch: everything sent and sampled in it, from position 0. */
  readonly #contexts: Int32Array[] = [];
  #current = 0;
  #turns = 0;
  #hash = CHAIN_START;

  /** Prompt and completion of the last turn; empty before the first. */
  get context(): Int32Array {
    return this.#contexts[this.#current] ?? new Int32Array(0);
  }

  get turns(): number {
    return this.#turns;
  }

  /** Continues the current branch when `ids` begins with its whole context, else forks. Changes nothing yet. */
  plan(ids: Int32Array): TurnPlan {
    const context = this.context;
    if (sharedPrefix(ids, context) === context.length) {
      return { branch: this.#current, parent: null, contextStart: context.length, drift: "clean", ids };
    }
    let parent = 0;
    let contextStart = -1;
    for (const [branch, candidate] of this.#contexts.entries()) {
      const shared = sharedPrefix(ids, candidate);
      if (shared > contextStart) [parent, contextStart] = [branch, shared];
    }
    return { branch: this.#contexts.length, parent, contextStart, drift: "fork", ids };
  }

  /** Closes the turn that `plan` began and returns its record, chained to the one before. */
  add(plan: TurnPlan, draft: TurnDraft): TurnRecord {
    const promptIds = plan.ids.slice(plan.contextStart);
    assert(promptIds.length === draft.promptContent.length, "one content flag for each prompt id");
    assert(promptIds.length === draft.promptMessage.length, "one message index for each prompt id");
    assert(draft.sampledIds.length === draft.logprobs.length, "one log-prob for each sampled id");
    const { branch, parent, contextStart, drift } = plan;
    const versions = mergeSpans(draft.versions);
    // JSON has no -0, and a hash over the bits would no longer hold for an exported trajectory.
    const logprobs = draft.logprobs.map((value) => (value === 0 ? 0 : value));
    const unsigned = {
      ...draft,
      logprobs,
      versions,
      index: this.#turns,
      branch,
      parent,
      contextStart,
      drift,
      promptIds,
    };
    const record = { ...unsigned, hash: hashTurn(this.#hash, unsigned) };
    this.#contexts[branch] = concat(plan.ids, draft.sampledIds);
    this.#current = branch;
    this.#turns += 1;
    this.#hash = record.hash;
    return record;
  }
}

/** Two id arrays as one. */
export function concat(left: Int32Array, right: Int32Array): Int32Array {
  const joined = new Int32Array(left.length + right.length);
  joined.set(left);
  joined.set(right, left.length);
  return joined;
}

function sharedPrefix(left: Int32Array, right: Int32Array): number {
  const length = Math.min(left.length, right.length);
  let at = 0;
  while (at < length && left[at] === right[at]) at += 1;
  return at;
}

/** Neighbouring spans of one version as one, empty ones left out: one record has one form, whoever sampled it. */
function mergeSpans(spans: readonly VersionSpan[]): VersionSpan[] {
  const merged: VersionSpan[] = [];
  for (const span of spans) {
    const last = merged.at(-1);
    if (span.start === span.end) continue;
    if (last && last.version === span.version && last.end === span.start) last.end = span.end;
    else merged.push({ ...span });
  }
  return merged;
}
