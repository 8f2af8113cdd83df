import { describe, expect, test } from "bun:test";
import { assemble } from "../../src/trajectory/assemble.ts";
import { Ledger } from "../../src/trajectory/ledger.ts";
import { verify } from "../../src/trajectory/verify.ts";
import { aDraft } from "../support/turns.ts";

const ids = (...values: number[]) => Int32Array.from(values);

/** Two turns: prompt 1 2, sampled 3 4; tool answer 5, sampled 6. */
function aLine() {
  const ledger = new Ledger();
  const turns = [ledger.add(ledger.plan(ids(1, 2)), aDraft(2, [3, 4]))];
  turns.push(ledger.add(ledger.plan(ids(1, 2, 3, 4, 5)), aDraft(1, [6], { messageIndex: 3 })));
  return { ledger, turns };
}

describe("Ledger", () => {
  test("continues the branch when the prompt begins with all that was sent and sampled", () => {
    const { ledger } = aLine();
    const plan = ledger.plan(ids(1, 2, 3, 4, 5, 6, 7));
    expect(plan).toMatchObject({ branch: 0, parent: null, contextStart: 6, drift: "clean" });
  });

  test("forks at the longest common prefix when history was rewritten", () => {
    const { ledger } = aLine();
    const plan = ledger.plan(ids(1, 2, 3, 9, 9));
    expect(plan).toMatchObject({ branch: 1, parent: 0, contextStart: 3, drift: "fork" });
  });

  test("forks from the branch that shares most, not from the last one", () => {
    const { ledger } = aLine();
    ledger.add(ledger.plan(ids(1, 9)), aDraft(1, [8]));
    expect(ledger.plan(ids(1, 2, 3, 4, 5, 7))).toMatchObject({ branch: 2, parent: 0, contextStart: 5 });
  });

  test("forks when one sampled id is dropped from the prompt", () => {
    const { ledger } = aLine();
    expect(ledger.plan(ids(1, 2, 3, 4, 5)).drift).toBe("fork");
  });
});

describe("assemble", () => {
  test("masks exactly what was sampled and puts log-probs and versions there", () => {
    const [branch] = assemble(aLine().turns);
    expect(branch).toEqual({
      id: 0,
      parent: null,
      sharedTokens: 0,
      promptTokens: 2,
      tokenIds: ids(1, 2, 3, 4, 5, 6),
      lossMask: Uint8Array.of(0, 0, 1, 1, 0, 1),
      logprobs: Float32Array.of(0, 0, -0.03, -0.04, 0, -0.06),
      temperatures: Float32Array.of(0, 0, 1, 1, 0, 1),
      isContent: Uint8Array.of(0, 0, 1, 1, 0, 1),
      messageIndex: Int32Array.of(-1, -1, 1, 1, -1, 3),
      versions: [
        { version: "0", start: 2, end: 4 },
        { version: "0", start: 5, end: 6 },
      ],
      turns: [
        { turn: 0, start: 2, end: 4 },
        { turn: 1, start: 5, end: 6 },
      ],
    });
  });

  test("trains a shared token in the parent only", () => {
    const { ledger, turns } = aLine();
    const fork = ledger.add(ledger.plan(ids(1, 2, 3, 9)), aDraft(1, [7]));
    const branches = assemble([...turns, fork]);
    expect(branches[1]).toMatchObject({
      parent: 0,
      sharedTokens: 3,
      promptTokens: 4,
      tokenIds: ids(1, 2, 3, 9, 7),
      lossMask: Uint8Array.of(0, 0, 0, 0, 1),
    });
    expect(verify([...turns, fork], branches)).toMatchObject({
      verdict: "forked",
      branches: [
        { id: 0, verdict: "exact" },
        { id: 1, verdict: "forked" },
      ],
      faults: [],
    });
  });

  test("refuses records that do not continue each other", () => {
    const { turns } = aLine();
    expect(() => assemble(turns.slice(1))).toThrow("starts where its branch ends");
  });
});
