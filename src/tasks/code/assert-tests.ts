import { z } from "zod";
import { type Clock, deadline } from "../../clock.ts";
import { RolloutError } from "../../errors.ts";
import type { ProgramOptions, SandboxHost, SandboxProgram } from "../../sandbox/sandbox.ts";
import type { Candidate } from "./candidate.ts";
import judgeSource from "./judge.py" with { type: "text" };

const JUDGE_PATH = "/grader/judge.py";
const TESTS_PATH = "/grader/tests.json";
const DETAIL_CHARS_MAX = 500;

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

export interface Judge {
  tests: readonly AssertTest[];
  image: string;
  limits: ProgramOptions["limits"];
  /** How long it may work on one answer of the candidate, ms. */
  stepMs: number;
  clock: Clock;
}

/**
 * Runs assert tests in a judge's sandbox and hands each call to the candidate in its own. Resolves with one result for
 * each assert. Throws RolloutError handler_error when the judge itself fails, which is the task's fault; what it does not
 * survive of a candidate's answer (a range of 10^15 numbers, to be summed) is the candidate's.
 */
export async function runAssertTests(
  sandboxes: Pick<SandboxHost, "start">,
  candidate: Candidate,
  judge: Judge,
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
  let hasAnswer = false;
  /** The test that the judge works on. */
  let at = 0;
  for (;;) {
    const line = hasAnswer ? await readInTime(program, judge, signal) : await program.readLine(signal);
    const message = line === null || line === LATE ? null : JudgeLine.safeParse(JSON.parse(line));
    if (!message?.success && hasAnswer)
      return [...results, ...unfinished(judge.tests, { at, results, isLate: line === LATE })];
    if (!message?.success) {
      const end = await program.wait(signal);
      throw new RolloutError("handler_error", `the tests failed by themselves: ${end.stderr.slice(-2_000)}`);
    }
    if ("done" in message.data) return results;
    if ("result" in message.data) {
      const { units, ...result } = message.data.result;
      results.push(result);
      at = result.unit + 1 < units ? result.test : result.test + 1;
    } else {
      const reply = await candidate.ask(message.data.call, signal);
      hasAnswer = true;
      await program.write(`${"line" in reply ? reply.line : JSON.stringify(reply)}\n`);
    }
  }
}

const LATE = Symbol("the judge is late");

/** The judge's next line, unless it works longer than `stepMs`. */
async function readInTime(
  program: SandboxProgram,
  { stepMs, clock }: Judge,
  signal: AbortSignal,
): Promise<string | null | typeof LATE> {
  const timer = deadline(clock, stepMs, signal, LATE);
  try {
    return await program.readLine(timer.signal);
  } catch (error) {
    if (timer.signal.reason === LATE) return LATE;
    throw error;
  } finally {
    await timer.release();
  }
}

/** The test at hand and those after it, as failed: one result each, since their asserts were not counted. */
function unfinished(
  tests: readonly AssertTest[],
  { at, results, isLate }: { at: number; results: readonly UnitResult[]; isLate: boolean },
): UnitResult[] {
  const why = isLate
    ? "candidate_timeout: the test took too long over what was answered"
    : "candidate_error: the test did not survive what was answered";
  const rest = tests
    .slice(at)
    .map(({ code }, index) => ({ test: at + index, detail: code.slice(0, DETAIL_CHARS_MAX) }));
  const unit = results.filter(({ test }) => test === at).length;
  return rest.map(({ test, detail }, index) => ({ test, unit: index === 0 ? unit : 0, passed: false, detail, why }));
}
