import type { Task } from "../../job/task.ts";
import type { Handler } from "../handler.ts";
import { taskInvalid } from "../invalid.ts";
import { setupAgent } from "../setup.ts";
import { findAnswer } from "./answer.ts";
import { parseAnswer, parseNumber, sameNumber } from "./number.ts";

const SYSTEM =
  "Solve the problem step by step. End with the final answer alone on the last line, in the form `ANSWER: number`.";

/**
 * Word problems with a number as answer (GSM8K and native rows). The final answer is compared exactly; a reply without
 * one scores 0, and a unit after the number is not compared. Needs no sandbox to grade, so nothing of the agent's can reach the grader.
 */
export const mathHandler: Handler = {
  name: "math",
  source: "built-in",
  tools: [],
  toolFormat: "none",
  carry: { answer: true, artifacts: [] },

  check(task) {
    if (task.answer === undefined) {
      throw taskInvalid("math needs an answer", [{ path: "answer", message: "is missing", accepted: "a number" }]);
    }
    if (parseNumber(String(task.answer)) === null) {
      const accepted = "a decimal number or a fraction, such as 18, -2.5, 3/4 or 1,200";
      throw taskInvalid("math compares numbers", [{ path: "answer", message: "is not a number", accepted }]);
    }
  },

  setup: (task) => setupAgent(task, { system: SYSTEM, tools: [] }),

  evaluate({ task, carry }) {
    const found = carry.answer === null ? null : findAnswer(carry.answer);
    const number = found === null ? null : parseAnswer(found.text);
    const expected = parseNumber(String(task.answer));
    const equivalent = number !== null && expected !== null && sameNumber(number, expected) ? 1 : 0;
    return Promise.resolve({
      reward: equivalent,
      rewards: { equivalent },
      report: { expected: String(task.answer), found: found?.text ?? null, found_by: found?.by ?? null },
      log: found === null ? "no final answer was found" : `found ${found.text} by ${found.by}`,
      grading: "separate",
    });
  },

  reference: (task: Task) => ({ answer: `ANSWER: ${task.answer}`, artifacts: [] }),
};
