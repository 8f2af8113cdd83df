import { describe, expect, test } from "bun:test";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { silentLog } from "../../src/log.ts";
import { mathHandler } from "../../src/tasks/math/math-handler.ts";
import { parseTask } from "../../src/tasks/parse-task.ts";

async function reward(answer: string, reply: string): Promise<number> {
  const task = parseTask({ id: "t", handler: "math", prompt: "p", answer });
  mathHandler.check(task);
  const verdict = await mathHandler.evaluate({
    task,
    carry: { answer: reply, artifacts: [] },
    limits: DEFAULT_LIMITS,
    signal: new AbortController().signal,
    log: silentLog,
    sandboxes: { open: () => Promise.reject(new Error("none")), start: () => Promise.reject(new Error("none")) },
  });
  return verdict.reward;
}

describe("math handler", () => {
  test.each([
    ["-3", "ANSWER: \u22123"],
    ["-3", "ANSWER: -$3"],
    ["18", "ANSWER: \\$18"],
    ["18", "ANSWER: $18$"],
    ["18", "ANSWER: \\(18\\)"],
    ["18", "ANSWER: $18.00"],
    ["18", "ANSWER: €18"],
    ["18", "**ANSWER:** 18"],
    ["18", "**ANSWER: 18**"],
    ["18", "ANSWER: `18`"],
    ["18", "ANSWER: 18 eggs"],
    ["18", "ANSWER: 18 dollars per day."],
    ["18", "ANSWER: 18 cm^2"],
    ["60", "ANSWER: 60 km/h"],
    ["18", "ANSWER: x = 18"],
    ["18", "\\boxed{18\\text{ eggs}}"],
    ["18", "\\boxed{18 \\mathrm{cm}}"],
    ["25", "\\boxed{25\\%}"],
    ["25", "ANSWER: 25 %"],
    ["1234", "ANSWER: 1 234"],
    ["1234", "ANSWER: 1\u202f234"],
    ["1234567", "ANSWER: 1,234,567"],
    ["1234", "\\boxed{1{,}234}"],
    ["1234", "\\boxed{1\\,234}"],
    ["1234", "ANSWER: 1_234"],
    ["1/2", "\\boxed{\\frac{1}{2}}"],
    ["0.5", "\\boxed{\\dfrac{1}{2}}"],
    ["-0.5", "\\boxed{-\\frac{1}{2}}"],
    ["0.5", "\\boxed{\\frac12}"],
    ["3/2", "ANSWER: 1 1/2"],
    ["-3/2", "ANSWER: -1 1/2"],
    ["1.5", "\\boxed{1\\frac{1}{2}}"],
    ["1 1/2", "ANSWER: 1.5"],
    ["\\frac{3}{4}", "ANSWER: 0.75"],
    ["0.5", "ANSWER: .5"],
    ["5", "ANSWER: +5"],
  ])("gives 1 when %p is answered as %p", async (answer, reply) => {
    expect(await reward(answer, reply)).toBe(1);
  });

  test.each([
    ["18", "ANSWER: 18 or 19"],
    ["18", "ANSWER: 18 thousand"],
    ["18", "ANSWER: 18 million dollars"],
    ["2", "ANSWER: 2 dozen"],
    ["2", "ANSWER: 2 and a half"],
    ["3", "ANSWER: 3 quarters"],
    ["3", "ANSWER: 3 less than that"],
    ["18", "ANSWER: not 18"],
    ["18", "ANSWER: about 18"],
    ["18", "ANSWER: 18 to 20"],
    ["12", "ANSWER: 1 2"],
    ["1234", "ANSWER: 12 34"],
    ["1234", "ANSWER: 1234,"],
    ["12345", "ANSWER: 12,345,6"],
    ["1234567", "ANSWER: 1234,567"],
    ["3", "ANSWER: 3x"],
    ["3", "ANSWER: 3^2"],
    ["3", "ANSWER: 3 + 4"],
    ["2", "ANSWER: 2\\pi"],
    ["2", "ANSWER: 2e"],
    ["2", "ANSWER: 2 pi"],
    ["2", "ANSWER: 2\\sqrt{3}"],
    ["11/2", "ANSWER: 1 1/2"],
    ["5", "ANSWER: 10/2/1"],
    ["1", "ANSWER: \\frac{1}{0}"],
    ["5", "ANSWER: x > 5"],
    ["5", "ANSWER: x = y = 5"],
    ["5", "ANSWER: 5, 6"],
    ["5", "ANSWER: (5)(6)"],
    ["0", "ANSWER:"],
    ["0", "ANSWER: none"],
  ])("gives 0 when %p is answered as %p", async (answer, reply) => {
    expect(await reward(answer, reply)).toBe(0);
  });
});
