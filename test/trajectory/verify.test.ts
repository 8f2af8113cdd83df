import { describe, expect, test } from "bun:test";
import { assemble } from "../../src/trajectory/assemble.ts";
import type { Branch } from "../../src/trajectory/branch.ts";
import { Ledger } from "../../src/trajectory/ledger.ts";
import type { TurnRecord } from "../../src/trajectory/turn.ts";
import { verify } from "../../src/trajectory/verify.ts";
import { aDraft, rehash } from "../support/turns.ts";

/** Three turns; the second branch position 5 is the second turn's only sampled token. */
function aTrajectory(): { turns: TurnRecord[]; branch: Branch } {
  const ledger = new Ledger();
  const turns = [ledger.add(ledger.plan(Int32Array.of(1, 2)), aDraft(2, [3, 4]))];
  turns.push(ledger.add(ledger.plan(Int32Array.of(1, 2, 3, 4, 5)), aDraft(1, [6])));
  turns.push(ledger.add(ledger.plan(Int32Array.of(1, 2, 3, 4, 5, 6, 7)), aDraft(1, [8, 9])));
  const [branch] = assemble(turns);
  if (!branch) throw new Error("one branch");
  return { turns, branch };
}

function faultOf(turns: readonly TurnRecord[], branch: Branch) {
  const report = verify(turns, [branch]);
  expect(report.verdict).toBe("rejected");
  expect(report.branches).toEqual([{ id: 0, verdict: "rejected" }]);
  return report.faults[0];
}

describe("verify", () => {
  test("finds nothing in a trajectory as it was written", () => {
    const { turns, branch } = aTrajectory();
    expect(verify(turns, [branch])).toEqual({ verdict: "exact", branches: [{ id: 0, verdict: "exact" }], faults: [] });
  });

  test("names turn and position of one changed id of a branch", () => {
    const { turns, branch } = aTrajectory();
    const tokenIds = branch.tokenIds.with(5, 60);
    expect(faultOf(turns, { ...branch, tokenIds })).toMatchObject({ field: "ids", turn: 1, position: 5 });
  });

  test("names turn and position of one changed mask bit", () => {
    const { turns, branch } = aTrajectory();
    const lossMask = branch.lossMask.with(4, 1);
    expect(faultOf(turns, { ...branch, lossMask })).toMatchObject({ field: "mask", turn: 1, position: 4 });
  });

  test("names turn and position of one changed log-prob, down to the last bit", () => {
    const { turns, branch } = aTrajectory();
    const logprobs = branch.logprobs.slice();
    new Int32Array(logprobs.buffer)[8] = (new Int32Array(logprobs.buffer)[8] ?? 0) + 1;
    expect(faultOf(turns, { ...branch, logprobs })).toMatchObject({ field: "logprobs", turn: 2, position: 8 });
  });

  test("names turn and position of one changed version", () => {
    const { turns, branch } = aTrajectory();
    const versions = branch.versions.map((span) => (span.start === 7 ? { ...span, version: "1" } : span));
    expect(faultOf(turns, { ...branch, versions })).toMatchObject({ field: "versions", turn: 2, position: 7 });
  });

  test.each([
    ["id", (turn: TurnRecord) => ({ ...turn, sampledIds: Int32Array.of(60) })],
    ["log-prob", (turn: TurnRecord) => ({ ...turn, logprobs: Float32Array.of(-0.5) })],
    ["version", (turn: TurnRecord) => ({ ...turn, versions: [{ version: "1", start: 0, end: 1 }] })],
    ["prompt id", (turn: TurnRecord) => ({ ...turn, promptIds: Int32Array.of(50) })],
    ["temperature", (turn: TurnRecord) => ({ ...turn, sampling: { ...turn.sampling, temperature: 0.5 } })],
  ])("names the turn when the %s of a record was changed", (_what, change) => {
    const { turns, branch } = aTrajectory();
    const changed = turns.map((turn) => (turn.index === 1 ? change(turn) : turn));
    const report = verify(changed, [branch]);
    expect(report.verdict).toBe("rejected");
    expect(report.faults.map((fault) => fault.turn)).toEqual([1, 1]);
    expect(report.faults.at(-1)?.field).toBe("chain");
  });

  test("finds a record that was changed together with its whole chain, by its branch", () => {
    const { turns, branch } = aTrajectory();
    const forged = rehash(turns.map((turn) => (turn.index === 1 ? { ...turn, sampledIds: Int32Array.of(60) } : turn)));
    expect(faultOf(forged, branch)).toMatchObject({ field: "ids", turn: 1, position: 5 });
  });

  test.each([
    ["is not a number", Number.NaN],
    ["is above zero", 0.25],
    ["is infinite", Number.NEGATIVE_INFINITY],
  ])("rejects a log-prob that %s even when chain and branch agree", (_what, value) => {
    const { turns } = aTrajectory();
    const bad = rehash(turns.map((turn) => (turn.index === 1 ? { ...turn, logprobs: Float32Array.of(value) } : turn)));
    const [branch] = assemble(bad);
    if (!branch) throw new Error("one branch");
    expect(faultOf(bad, branch)).toMatchObject({ field: "logprobs", turn: 1, position: 5 });
  });

  test("rejects versions that leave a sampled token out", () => {
    const { turns } = aTrajectory();
    const bad = rehash(
      turns.map((turn) => (turn.index === 2 ? { ...turn, versions: [{ version: "0", start: 0, end: 1 }] } : turn)),
    );
    const [branch] = assemble(bad);
    if (!branch) throw new Error("one branch");
    expect(faultOf(bad, branch)).toMatchObject({ field: "versions", turn: 2, position: 8 });
  });

  test("rejects a trajectory that lost its first turn", () => {
    const { turns, branch } = aTrajectory();
    expect(verify(turns.slice(1), [branch]).verdict).toBe("rejected");
  });

  test("rejects a branch that stands twice in the place of another, and a changed length of the prompt", () => {
    const ledger = new Ledger();
    const turns = [ledger.add(ledger.plan(Int32Array.of(1, 2)), aDraft(2, [3]))];
    turns.push(ledger.add(ledger.plan(Int32Array.of(1, 9)), aDraft(1, [4])));
    const branches = assemble(turns);
    expect(verify(turns, branches).verdict).toBe("forked");
    const [first, second] = branches;
    if (!first || !second) throw new Error("two branches");
    expect(verify(turns, [first, first]).verdict).toBe("rejected");
    expect(verify(turns, [second, first]).verdict).toBe("rejected");
    expect(verify(turns, [first, { ...second, promptTokens: 0 }])).toMatchObject({
      verdict: "rejected",
      faults: [{ field: "turns", branch: 1 }],
    });
  });
});
