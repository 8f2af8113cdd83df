import { z } from "zod";
import { RolloutError } from "../../errors.ts";
import type { Verdict } from "../../job/job.ts";
import { sandboxLimitsOf } from "../../job/limits.ts";
import { LIMITS } from "../../limits.ts";
import type { SandboxFile } from "../../sandbox/sandbox.ts";
import { ArtifactPaths, artifactPath, taskReference, toSandboxFile } from "../artifacts.ts";
import type { EvalContext, Handler } from "../handler.ts";
import { taskInvalid } from "../invalid.ts";
import { setupAgent } from "../setup.ts";

const TOOLS = ["bash", "python", "edit", "finish"] as const;
const ANSWER_PATH = "/grader/answer.txt";

const Score = z.union([
  z.number(),
  z.looseObject({ reward: z.number(), rewards: z.record(z.string(), z.number()).default({}) }),
]);

/**
 * Any task with a program as grader, in any language. `eval.command` runs in a fresh sandbox with `eval.files`, the
 * files that the task names in `artifacts` at the paths they had, and the answer in /grader/answer.txt; the last line
 * it prints is the score: a number, or `{"reward": 0.5, "rewards": {...}}`. The grader may run what the agent left, so
 * the result says `shared_process`.
 */
export const commandHandler: Handler = {
  name: "command",
  source: "built-in",
  tools: TOOLS,
  toolFormat: "auto",
  carry: { answer: true, artifacts: [] },

  check(task) {
    if (task.eval === undefined) {
      const accepted = '{"command": ["python3", "/grader/score.py"], "files": [...]}';
      throw taskInvalid("command needs a grader", [{ path: "eval", message: "is missing", accepted }]);
    }
    if (task.artifacts !== undefined && !ArtifactPaths.safeParse(task.artifacts).success) {
      const accepted = 'absolute paths, such as ["/workspace/out.txt"]';
      throw taskInvalid("artifacts of a command task", [
        { path: "artifacts", message: "is no list of paths", accepted },
      ]);
    }
  },

  setup: (task) => setupAgent(task, { system: null, tools: TOOLS }),

  async evaluate(context) {
    const files = graderFiles(context);
    const argv = context.task.eval?.command ?? [];
    await using program = await context.sandboxes.start(
      { image: context.task.image, limits: sandboxLimitsOf(context.limits), argv, files },
      context.signal,
    );
    program.closeStdin();
    const end = await program.wait(context.signal);
    if (end.exitCode !== 0) {
      const how = end.exitCode === null ? `signal ${end.signal}` : `exit code ${end.exitCode}`;
      throw new RolloutError("handler_error", `the grader ended with ${how}: ${end.stderr.slice(-2_000)}`);
    }
    if (end.stdoutTruncated) {
      // Of a longer output the beginning is kept, and its last line is whatever the cut left, not the score.
      throw new RolloutError("handler_error", `the grader printed more than ${LIMITS.outputBytesMax} bytes`);
    }
    return readScore(end.stdout, end.stderr);
  },

  reference: taskReference,
};

/** The grader's own files come last: what the agent left never replaces them. */
function graderFiles(context: EvalContext): SandboxFile[] {
  const carried = context.carry.artifacts.map(({ name, bytes }) => ({ path: artifactPath(name), bytes }));
  const answer = { path: ANSWER_PATH, bytes: new TextEncoder().encode(context.carry.answer ?? "") };
  return [...carried, answer, ...(context.task.eval?.files ?? []).map(toSandboxFile)];
}

function readScore(stdout: string, log: string): Verdict {
  const line = stdout.trimEnd().split("\n").at(-1) ?? "";
  const score = Score.safeParse(parseJson(line));
  if (!score.success) {
    const shown = JSON.stringify(line.slice(0, 200));
    throw new RolloutError(
      "handler_error",
      `the grader's last line is ${shown}; expected a number or {"reward": number}`,
    );
  }
  const { reward, rewards, ...report } =
    typeof score.data === "number" ? { reward: score.data, rewards: {} } : score.data;
  return { reward, rewards, report, log: `${stdout}${log}`, grading: "shared_process" };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // said by the caller, with the line
  }
}
