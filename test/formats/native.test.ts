import { describe, expect, test } from "bun:test";
import { NativeTrajectory, readNative } from "../../src/formats/native.ts";
import { trajectoryToWire } from "../../src/http/trajectory-wire.ts";
import type { Job } from "../../src/job/job.ts";
import { assemble } from "../../src/trajectory/assemble.ts";
import { Ledger } from "../../src/trajectory/ledger.ts";
import type { TurnRecord } from "../../src/trajectory/turn.ts";
import { verify } from "../../src/trajectory/verify.ts";
import { anOutcome } from "../support/jobs.ts";
import { aDraft } from "../support/turns.ts";

/** Log-probs that a decimal of few digits would not give back. */
const LOGPROBS = Float32Array.of(-0.1, -1 / 3, -1e-30, 0, -12.345678);

/** Four branches: a fork in a sampled turn, one of that, and one that shares nothing; versions change inside a turn. */
function aForest(): TurnRecord[] {
  const ledger = new Ledger();
  const add = (ids: number[], sampled: number[], over = {}) => {
    const plan = ledger.plan(Int32Array.from(ids));
    return ledger.add(plan, aDraft(ids.length - plan.contextStart, sampled, over));
  };
  return [
    add([1, 2], [3, 4, 5, 6, 7], {
      logprobs: LOGPROBS,
      versions: [
        { version: "7", start: 0, end: 2 },
        { version: "8", start: 2, end: 5 },
      ],
    }),
    add([1, 2, 3, 4, 5, 6, 7, 8], [9], { versions: [{ version: "8", start: 0, end: 1 }], messageIndex: 3 }),
    add([1, 2, 3, 4, 50], [51, 52], { stopReason: "\\n", finishReason: "length", messageIndex: 5 }),
    add([1, 2, 3, 4, 50, 51, 52, 53], [54], { messageIndex: 7 }),
    add([1, 2, 3, 4, 50, 51, 60], [61], { parse: "malformed", messageIndex: 9 }),
    add([90], [91], { sampling: { ...aDraft(0, []).sampling, temperature: 0.7, seed: 5 }, messageIndex: 11 }),
    add([90, 91], [92], { messageIndex: 12 }),
  ];
}

function exported(turns: readonly TurnRecord[]): NativeTrajectory {
  const job = { id: "job_1", taskId: "t", outcome: anOutcome() } as Job;
  const stored = {
    id: "trj_1",
    job,
    attemptId: "att_1",
    messages: [],
    tools: [],
    network: null,
    toolResults: [],
    model: null,
  };
  const wire = trajectoryToWire({ ...stored, turns, branches: assemble(turns), evaluation: null });
  return NativeTrajectory.parse(JSON.parse(JSON.stringify(wire)));
}

describe("readNative", () => {
  test("gives back the records and branches of a trajectory with forks, to the bit, through JSON", () => {
    const turns = aForest();
    const branches = assemble(turns);
    expect(branches.map((branch) => [branch.parent, branch.sharedTokens])).toEqual([
      [null, 0],
      [0, 4],
      [1, 6],
      [0, 0],
    ]);
    const read = readNative(exported(turns));
    expect(verify(read.turns, read.branches, read.lastHash)).toMatchObject({ verdict: "forked", faults: [] });
    expect(read.branches).toEqual(branches);
    expect(read.turns.map((turn) => turn.hash)).toEqual(turns.map((turn) => turn.hash));
    expect(read.turns[0]?.logprobs).toEqual(LOGPROBS);
  });

  test.each([
    ["an id of the shared part", (copy: NativeTrajectory) => void copy.branches[1]?.token_ids.splice(1, 1, 77)],
    ["the parent", (copy: NativeTrajectory) => Object.assign(copy.branches[2] ?? {}, { parent: 0 })],
    [
      "the length of the shared part",
      (copy: NativeTrajectory) => Object.assign(copy.branches[2] ?? {}, { shared_tokens: 5 }),
    ],
    ["the mask of the shared part", (copy: NativeTrajectory) => void copy.branches[1]?.loss_mask.splice(2, 1, 1)],
    [
      "a version inside a turn",
      (copy: NativeTrajectory) => Object.assign(copy.branches[0]?.versions[0] ?? {}, { end: 5 }),
    ],
    [
      "the end reason of a turn",
      (copy: NativeTrajectory) => Object.assign(copy.branches[1]?.turns[0] ?? {}, { finish_reason: "stop" }),
    ],
    ["a branch that is left out", (copy: NativeTrajectory) => void copy.branches.pop()],
    [
      "a branch that stands twice",
      (copy: NativeTrajectory) => void copy.branches.splice(3, 1, ...copy.branches.slice(0, 1)),
    ],
  ])("makes a change of %s seen", (_what, change) => {
    const copy = exported(aForest());
    change(copy);
    const read = readNative(copy);
    expect(verify(read.turns, read.branches, read.lastHash).verdict).toBe("rejected");
  });
});
