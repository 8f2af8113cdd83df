import type { Clock } from "../../clock.ts";
import type { Verdict } from "../../job/job.ts";
import { sandboxLimitsOf } from "../../job/limits.ts";
import type { Task } from "../../job/task.ts";
import { LIMITS } from "../../limits.ts";
import { taskReference } from "../artifacts.ts";
import type { EvalContext, Handler } from "../handler.ts";
import { taskInvalid } from "../invalid.ts";
import { setupAgent } from "../setup.ts";
import { runAssertTests, type UnitResult } from "./assert-tests.ts";
import { Candidate, type CandidateOptions, SOLUTION_PATH } from "./candidate.ts";
import { findSolution, solutionStub } from "./solution.ts";
import { runStdioTest } from "./stdio-tests.ts";

const TOOLS = ["bash", "python", "edit", "finish"] as const;
const SYSTEM = `Write the solution to ${SOLUTION_PATH}, try it, and call finish when it works. Hidden tests decide.`;
/** Share of EVAL's time that the candidate may use up: what is left lets the judge report. */
const CANDIDATE_SHARE = 0.8;
/** Share of it that the judge may spend on one answer, so that an answer cannot turn a failed test into a time-out of EVAL. */
const JUDGE_SHARE = 0.1;

/**
 * Programming tasks with hidden tests (HumanEval and native rows). The candidate never shares a sandbox with the tests:
 * asserts call it over a pipe, programs are run and their output compared by the server. The reward is the share of
 * asserts and stdio tests that pass; with `credit: "all"` it is 1 only when all do.
 */
export function createCodeHandler(clock: Clock): Handler {
  return {
    name: "code",
    source: "built-in",
    tools: TOOLS,
    toolFormat: "auto",
    carry: { answer: true, artifacts: [SOLUTION_PATH] },
    check,
    setup: (task) => setupAgent(task, { system: task.tool_format === "none" ? null : SYSTEM, tools: TOOLS }),

    async init({ task, sandbox, signal }) {
      const bytes = new TextEncoder().encode(solutionStub(task));
      await sandbox?.writeFile({ path: SOLUTION_PATH, bytes }, signal);
    },

    async evaluate(context) {
      const solution = findSolution(context.task, context.carry);
      if (solution === null) return verdict(context.task, null, []);
      const candidate = {
        solution,
        image: context.task.image,
        limits: sandboxLimitsOf(context.limits),
        timeMs: context.limits.evalMs * CANDIDATE_SHARE,
      };
      return verdict(context.task, solution, await runTests(context, candidate, clock));
    },

    reference(task) {
      if (typeof task.canonical_solution !== "string") return taskReference(task);
      const code = `${typeof task.starter_code === "string" ? task.starter_code : ""}${task.canonical_solution}`;
      return { answer: null, artifacts: [{ name: "solution.py", bytes: new TextEncoder().encode(code) }] };
    },
  };
}

function check(task: Task): void {
  if (task.tests === undefined || task.tests.length === 0) {
    const accepted = '[{"kind": "assert", "code": "..."} | {"kind": "stdio", "input": "...", "output": "..."}]';
    throw taskInvalid("code needs tests", [{ path: "tests", message: "is missing", accepted }]);
  }
  const long = task.tests.findIndex((test) => test.kind === "stdio" && test.output.length > LIMITS.outputBytesMax / 4);
  if (long >= 0) {
    const accepted = `at most ${LIMITS.outputBytesMax / 4} characters, since more is not kept of a program's output`;
    throw taskInvalid("an output that is too long", [
      { path: `tests.${long}.output`, message: "is too long", accepted },
    ]);
  }
  if (task.credit !== undefined && task.credit !== "all" && task.credit !== "fraction") {
    throw taskInvalid("credit of a code task", [
      { path: "credit", message: "is unknown", accepted: '"all" or "fraction"' },
    ]);
  }
}

async function runTests(context: EvalContext, candidate: CandidateOptions, clock: Clock): Promise<UnitResult[]> {
  const tests = context.task.tests ?? [];
  const entryPoint = typeof context.task.entry_point === "string" ? context.task.entry_point : null;
  const asserts = tests.flatMap((test) => (test.kind === "assert" ? [{ code: test.code, entryPoint }] : []));
  const results: UnitResult[] = [];
  if (asserts.length > 0) {
    await using runner = new Candidate(context.sandboxes, candidate, clock);
    const { image, limits } = candidate;
    const stepMs = Math.min(LIMITS.judgeStepMs, context.limits.evalMs * JUDGE_SHARE);
    const judge = { tests: asserts, image, limits, stepMs, clock };
    results.push(...(await runAssertTests(context.sandboxes, runner, judge, context.signal)));
  }
  let timeLeftMs = candidate.timeMs;
  for (const [at, test] of tests.entries()) {
    if (test.kind !== "stdio") continue;
    const startMs = clock.nowMs();
    const parts = { sandboxes: context.sandboxes, clock };
    const outcome =
      timeLeftMs > 0
        ? await runStdioTest(parts, { ...candidate, timeMs: timeLeftMs }, test, context.signal)
        : { detail: "", passed: false, why: "candidate_timeout: the time for all tests is used up" };
    results.push({ test: at, unit: 0, ...outcome });
    timeLeftMs -= clock.nowMs() - startMs;
  }
  return results;
}

function verdict(task: Task, solution: string | null, results: readonly UnitResult[]): Verdict {
  const passed = results.filter((result) => result.passed).length;
  const fraction = results.length === 0 ? 0 : passed / results.length;
  const allPassed = results.length > 0 && passed === results.length ? 1 : 0;
  return {
    reward: task.credit === "all" ? allPassed : fraction,
    rewards: { tests_passed: fraction, all_passed: allPassed },
    report: { solution_found: solution !== null, passed, tests: results.length, results },
    log: solution ?? "no solution: neither a changed solution.py nor a closed python fence in the answer",
    grading: "separate",
  };
}
