import { z } from "zod";
import { RolloutError } from "../../errors.ts";
import type { ProgramOptions, SandboxHost } from "../../sandbox/sandbox.ts";
import type { Candidate } from "./candidate.ts";
import judgeSource from "./judge.py" with { type: "text" };

const JUDGE_PATH = "/grader/judge.py";
const TESTS_PATH = "/grader/tests.json";

/** One assert of a test: the unit of credit. */
export interface UnitResult {
  test: number;
  unit: number;
  passed: boolean;
  /** Source of the statement, for the report. */
  detail: string;
  why: string | null;
}

const JudgeLine = z.union([
  z.object({ call: z.unknown() }).refine((line) => "call" in line),
  z.object({
    result: z.object({
      test: z.int(),
      unit: z.int(),
      units: z.int(),
      passed: z.boolean(),
      detail: z.string(),
      why: z.string().nullable(),
    }),
  }),
  z.object({ done: z.literal(true) }),
]);

export interface AssertTest {
  code: string;
  /** The function that `check(candidate)` is given; null for tests that call by name. */
  entryPoint: string | null;
}

/**
 * Runs assert tests in a judge's sandbox and hands each call to the candidate in its own. Resolves with one result for
 * each assert. Throws RolloutError handler_error when the judge itself fails, which is the task's fault.
 */
export async function runAssertTests(
  sandboxes: Pick<SandboxHost, "start">,
  candidate: Candidate,
  judge: { tests: readonly AssertTest[]; image: string; limits: ProgramOptions["limits"] },
  signal: AbortSignal,
): Promise<UnitResult[]> {
  const tests = judge.tests.map((test) => ({ code: test.code, entry_point: test.entryPoint }));
  const encode = (text: string) => new TextEncoder().encode(text);
  await using program = await sandboxes.start(
    {
      image: judge.image,
      limits: judge.limits,
      argv: ["python3", JUDGE_PATH, TESTS_PATH],
      files: [
        { path: JUDGE_PATH, bytes: encode(judgeSource) },
        { path: TESTS_PATH, bytes: encode(JSON.stringify(tests)) },
      ],
    },
    signal,
  );
  const results: UnitResult[] = [];
  for (;;) {
    const line = await program.readLine(signal);
    const message = line === null ? null : JudgeLine.safeParse(JSON.parse(line));
    if (!message?.success) {
      const end = await program.wait(signal);
      throw new RolloutError("handler_error", `the tests failed by themselves: ${end.stderr.slice(-2_000)}`);
    }
    if ("done" in message.data) return results;
    if ("result" in message.data) results.push(message.data.result);
    else {
      const reply = await candidate.ask(message.data.call, signal);
      await program.write(`${"line" in reply ? reply.line : JSON.stringify(reply)}\n`);
    }
  }
}
