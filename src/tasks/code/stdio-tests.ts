import { type Clock, deadline } from "../../clock.ts";
import { RolloutError } from "../../errors.ts";
import { LIMITS } from "../../limits.ts";
import type { ProgramResult, SandboxHost } from "../../sandbox/sandbox.ts";
import type { UnitResult } from "./assert-tests.ts";
import { type CandidateOptions, SOLUTION_PATH } from "./candidate.ts";

export interface StdioTest {
  input: string;
  output: string;
}

/**
 * Runs the solution as a program, each test in a sandbox of its own, and compares what it prints here, in the server.
 * White space at line ends and at the end of the output does not count.
 */
export async function runStdioTest(
  parts: { sandboxes: Pick<SandboxHost, "start">; clock: Clock },
  candidate: CandidateOptions,
  test: StdioTest,
  signal: AbortSignal,
): Promise<Omit<UnitResult, "test" | "unit">> {
  const timer = deadline(parts.clock, Math.min(LIMITS.candidateCallMs, candidate.timeMs), signal, TIME_UP);
  const detail = `stdin ${JSON.stringify(test.input.slice(0, 200))}`;
  try {
    await using program = await parts.sandboxes.start(
      {
        image: candidate.image,
        limits: candidate.limits,
        argv: ["python3", SOLUTION_PATH],
        files: [{ path: SOLUTION_PATH, bytes: new TextEncoder().encode(candidate.solution) }],
      },
      signal,
    );
    const ended = program.wait(timer.signal);
    // A program that ends without reading its input breaks the pipe; its output is judged all the same.
    const fed = program
      .write(test.input)
      .catch(() => {})
      .then(() => program.closeStdin());
    const end = await ended;
    await fed;
    return { detail, ...judge(end, test.output) };
  } catch (error) {
    if (timer.signal.reason === TIME_UP) return { detail, passed: false, why: "candidate_timeout: it ran too long" };
    if (!(error instanceof RolloutError) || error.reason !== "sandbox_limit") throw error;
    return { detail, passed: false, why: `candidate_died: ${error.detail}` };
  } finally {
    await timer.release();
  }
}

const TIME_UP = new Error("candidate time is up");

function judge(end: ProgramResult, output: string): { passed: boolean; why: string | null } {
  if (end.exitCode !== 0) {
    const how = end.exitCode === null ? `signal ${end.signal}` : `exit code ${end.exitCode}`;
    return { passed: false, why: `ended with ${how}: ${end.stderr.trim().slice(-500)}` };
  }
  if (end.stdoutTruncated) return { passed: false, why: `printed more than ${LIMITS.outputBytesMax} bytes` };
  const [have, want] = [trimLines(end.stdout), trimLines(output)];
  if (have.length === want.length && have.every((line, at) => line === want[at])) return { passed: true, why: null };
  const at = want.findIndex((line, index) => line !== have[index]);
  const line = at < 0 ? want.length : at;
  const show = (text: string | undefined) => (text === undefined ? "nothing" : JSON.stringify(text.slice(0, 200)));
  return { passed: false, why: `line ${line + 1}: expected ${show(want[line])}, printed ${show(have[line])}` };
}

function trimLines(text: string): string[] {
  return text
    .trimEnd()
    .split("\n")
    .map((line) => line.trimEnd());
}
