import { describe, expect, test } from "bun:test";
import { REASONS, type Reason } from "../../src/errors.ts";
import { retryDelayMs } from "../../src/job/retry.ts";
import { isLegalMove, STATES } from "../../src/job/state.ts";

describe("retryDelayMs", () => {
  test("backs off after an infrastructure failure until the attempts are used up", () => {
    const delays = [1, 2, 3].map((counted) => retryDelayMs("backend_unreachable", { counted, attemptsMax: 3 }));
    expect(delays).toEqual([500, 1_000, null]);
  });

  test("tries a task's own failure once more", () => {
    const delays = [1, 2].map((counted) => retryDelayMs("handler_error", { counted, attemptsMax: 3 }));
    expect(delays).toEqual([500, null]);
  });

  test("always tries again after a restart of the server", () => {
    expect(retryDelayMs("server_restart", { counted: 99, attemptsMax: 1 })).toBe(0);
  });

  test("never tries again what the policy or the caller ended", () => {
    const final = (Object.keys(REASONS) as Reason[]).filter((reason) =>
      ["policy", "none"].includes(REASONS[reason].blame),
    );
    expect(final.length).toBeGreaterThan(5);
    for (const reason of final) expect(retryDelayMs(reason, { counted: 1, attemptsMax: 3 })).toBeNull();
  });
});

describe("REASONS", () => {
  test("grade nothing that infrastructure or the task ended", () => {
    for (const rule of Object.values(REASONS)) {
      if (rule.blame === "infra" || rule.blame === "task")
        expect(rule).toMatchObject({ graded: false, status: "failed" });
    }
  });
});

describe("isLegalMove", () => {
  test("leaves finished never, and reaches it from everywhere else", () => {
    for (const state of STATES) {
      expect(isLegalMove("finished", state)).toBe(false);
      expect(isLegalMove(state, "finished")).toBe(state !== "finished");
    }
  });

  test("repeats EVAL alone, without going back to RUN", () => {
    expect(isLegalMove("evaluating", "awaiting_eval")).toBe(true);
    expect(isLegalMove("evaluating", "queued")).toBe(false);
  });
});
