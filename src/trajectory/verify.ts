import type { LedgerVerdict } from "../job/job.ts";
import { assemble } from "./assemble.ts";
import type { Branch } from "./branch.ts";
import { CHAIN_START, hashTurn } from "./hash.ts";
import type { TurnRecord } from "./turn.ts";

/** The first thing that disagrees. `position` is in the branch; null where only the turn as a whole is known. */
export interface LedgerFault {
  field: "ids" | "mask" | "logprobs" | "temperatures" | "versions" | "content" | "messages" | "turns" | "chain";
  branch: number;
  turn: number | null;
  position: number | null;
  detail: string;
}

export interface LedgerReport {
  verdict: Exclude<LedgerVerdict, "text">;
  /** Of each branch: `forked` when it shares tokens with a parent. */
  branches: readonly { id: number; verdict: "exact" | "forked" | "rejected" }[];
  /** All faults found, the first of each branch and of the chain. Empty when the ledger holds. */
  faults: readonly LedgerFault[];
}

/**
 * Checks the records by themselves and the hash chain, assembles the branches again and compares them with those
 * given, element by element. `lastHash` is what the chain is known to end with: without it, turns that were cut off the
 * end leave no trace. Never throws for what it is given.
 */
export function verify(
  turns: readonly TurnRecord[],
  branches: readonly Branch[],
  lastHash: string | null = null,
): LedgerReport {
  const faults: LedgerFault[] = [];
  const broken = brokenRecord(turns) ?? brokenChain(turns) ?? cutChain(turns, lastHash);
  let expected: Branch[] = [];
  try {
    expected = assemble(turns);
  } catch (error) {
    faults.push(chainFault(turns.at(-1), `the records do not fit together: ${String(error)}`));
  }
  if (expected.length !== branches.length && faults.length === 0) {
    faults.push(chainFault(undefined, `${branches.length} branches stored, ${expected.length} recorded`));
  }
  for (const [at, branch] of branches.entries()) {
    const other = expected[at];
    const fault = other ? compare(other, branch) : null;
    if (fault) faults.push(fault);
  }
  // A changed record shows in its branch too, and there the position is known: the chain's fault comes after it.
  if (broken) faults.push(broken);
  const rejected = new Set(faults.map((fault) => fault.branch));
  return {
    verdict: faults.length > 0 ? "rejected" : branches.length > 1 ? "forked" : "exact",
    branches: branches.map((branch) => ({
      id: branch.id,
      verdict: rejected.has(branch.id) ? "rejected" : branch.parent === null ? "exact" : "forked",
    })),
    faults,
  };
}

function chainFault(turn: TurnRecord | undefined, detail: string): LedgerFault {
  return { field: "chain", branch: turn?.branch ?? 0, turn: turn?.index ?? null, position: null, detail };
}

/** Invariants of a record alone: finite log-probs <= 0, equal lengths, versions that cover every sampled token. */
function brokenRecord(turns: readonly TurnRecord[]): LedgerFault | null {
  for (const turn of turns) {
    const base = turn.contextStart + turn.promptIds.length;
    const fault = (field: LedgerFault["field"], at: number | null, detail: string): LedgerFault => ({
      field,
      branch: turn.branch,
      turn: turn.index,
      position: at === null ? null : base + at,
      detail,
    });
    if (turn.sampledIds.length !== turn.logprobs.length) return fault("logprobs", null, "one log-prob for each id");
    const bad = turn.logprobs.findIndex((value) => !Number.isFinite(value) || value > 0);
    if (bad >= 0) return fault("logprobs", bad, `log-prob ${turn.logprobs[bad]} is not finite and <= 0`);
    let covered = 0;
    for (const span of turn.versions) {
      if (span.start !== covered || span.end < span.start) return fault("versions", covered, "a gap between versions");
      covered = span.end;
    }
    if (covered !== turn.sampledIds.length) return fault("versions", covered, "versions end before the tokens do");
  }
  return null;
}

function brokenChain(turns: readonly TurnRecord[]): LedgerFault | null {
  let previous = CHAIN_START;
  for (const [at, turn] of turns.entries()) {
    if (turn.index !== at) return chainFault(turn, `turn ${at} is missing`);
    if (hashTurn(previous, turn) !== turn.hash) {
      const start = turn.contextStart + turn.promptIds.length;
      const detail = `the record differs from its hash; it sampled tokens ${start}..${start + turn.sampledIds.length}`;
      return { ...chainFault(turn, detail), position: turn.contextStart };
    }
    previous = turn.hash;
  }
  return null;
}

function cutChain(turns: readonly TurnRecord[], lastHash: string | null): LedgerFault | null {
  const last = turns.at(-1);
  if (lastHash === null || last?.hash === lastHash) return null;
  return chainFault(last, `turns are missing after turn ${last?.index ?? "0"}: the chain ends with another hash`);
}

function compare(expected: Branch, stored: Branch): LedgerFault | null {
  const arrays = [
    ["ids", expected.tokenIds, stored.tokenIds],
    ["mask", expected.lossMask, stored.lossMask],
    ["logprobs", expected.logprobs, stored.logprobs],
    ["temperatures", expected.temperatures, stored.temperatures],
    ["content", expected.isContent, stored.isContent],
    ["messages", expected.messageIndex, stored.messageIndex],
  ] as const;
  const fault = (field: LedgerFault["field"], position: number, detail: string): LedgerFault => ({
    field,
    branch: stored.id,
    turn: turnAt(expected, position),
    position,
    detail,
  });
  for (const [field, want, have] of arrays) {
    const at = firstDifference(want, have);
    if (at !== null) return fault(field, at, `recorded ${want[at] ?? "nothing"}, stored ${have[at] ?? "nothing"}`);
  }
  for (const position of stored.tokenIds.keys()) {
    const [want, have] = [versionAt(expected, position), versionAt(stored, position)];
    if (want !== have) return fault("versions", position, `recorded ${want ?? "none"}, stored ${have ?? "none"}`);
  }
  if (stored.id !== expected.id) return fault("turns", 0, `branch ${stored.id} in the place of ${expected.id}`);
  if (stored.parent !== expected.parent || stored.sharedTokens !== expected.sharedTokens) {
    return fault("turns", 0, `recorded parent ${expected.parent} at ${expected.sharedTokens}`);
  }
  if (stored.promptTokens !== expected.promptTokens) {
    return fault("turns", 0, `recorded ${expected.promptTokens} tokens before the first that was sampled`);
  }
  if (JSON.stringify(stored.turns) !== JSON.stringify(expected.turns)) return fault("turns", 0, "turn spans differ");
  return null;
}

function firstDifference(want: ArrayLike<number>, have: ArrayLike<number>): number | null {
  const length = Math.max(want.length, have.length);
  for (let at = 0; at < length; at += 1) if (!Object.is(want[at], have[at])) return at;
  return null;
}

/** The turn whose prompt or sample holds this position; null before the first. */
function turnAt(branch: Branch, position: number): number | null {
  return branch.turns.find((turn) => position < turn.end)?.turn ?? branch.turns.at(-1)?.turn ?? null;
}

function versionAt(branch: Branch, position: number): string | null {
  return branch.versions.find((span) => position >= span.start && position < span.end)?.version ?? null;
}
