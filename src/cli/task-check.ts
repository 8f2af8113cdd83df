import { type Clock, deadline } from "../clock.ts";
import { RequestError, RolloutError } from "../errors.ts";
import { DEFAULT_LIMITS } from "../job/limits.ts";
import type { Task } from "../job/task.ts";
import { silentLog } from "../log.ts";
import { checkImage } from "../pipeline/submit.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import { checkTask, type TaskCheck } from "../tasks/check.ts";
import type { Registry } from "../tasks/registry.ts";
import { checkRows, readRows } from "./read-rows.ts";
import { formatReward, formatTable } from "./table.ts";

export interface TaskCheckParts {
  sandboxes: SandboxHost;
  registry: Registry;
  /** Recipes that images can be built from, by name. */
  recipes: readonly string[];
  clock: Clock;
}

export interface TaskCheckOptions {
  json: boolean;
  /** Called once the file is known to be right; what it throws ends the command. */
  beforeFirst: () => Promise<void>;
}

/**
 * `rolloutd task check PATH`: grades each task for an agent that does nothing, which must not get full marks, and for
 * its reference solution, which must. Needs no model and no server. Exit code 1 when a task fails.
 */
export async function checkTasks(parts: TaskCheckParts, path: string, options: TaskCheckOptions): Promise<number> {
  const rows = await readRows(path);
  checkRows(path, rows, parts.registry);
  await options.beforeFirst();
  const checks: TaskCheck[] = [];
  for (const { raw } of rows) {
    const check = await checkRow(parts, raw);
    checks.push(check);
    if (options.json) console.log(JSON.stringify(toWire(check)));
  }
  const failed = checks.filter((check) => !check.ok).length;
  if (!options.json) {
    const cells = checks.map((check) => [
      check.taskId,
      check.ok ? "ok" : "FAILED",
      formatReward(check.emptyReward),
      formatReward(check.referenceReward),
      firstLine(check.problem ?? ""),
    ]);
    console.log(formatTable([["task", "check", "empty", "reference", "problem"], ...cells]));
    console.log(`${checks.length - failed} ok, ${failed} failed`);
  }
  return failed === 0 ? 0 : 1;
}

async function checkRow(parts: TaskCheckParts, raw: unknown): Promise<TaskCheck> {
  const parsed = parts.registry.parse(raw);
  const unknown = imageProblem(parts, parsed.task);
  if (unknown !== null) {
    return { taskId: parsed.task.id, ok: false, emptyReward: null, referenceReward: null, problem: unknown };
  }
  const late = new RolloutError("eval_timeout", `grading took longer than ${DEFAULT_LIMITS.evalMs} ms`);
  const timer = deadline(parts.clock, 2 * DEFAULT_LIMITS.evalMs, new AbortController().signal, late);
  try {
    const own = { sandboxes: parts.sandboxes, log: silentLog };
    return await checkTask(own, parsed, DEFAULT_LIMITS, timer.signal);
  } finally {
    await timer.release();
  }
}

/** What a server would say of an image that there is not. */
function imageProblem({ sandboxes, recipes }: TaskCheckParts, task: Task): string | null {
  const images = sandboxes.images().map(({ name }) => name);
  try {
    checkImage(task, images, recipes);
    return null;
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    return `${error.reason}: ${error.detail}; there are ${images.join(", ")}`;
  }
}

const PROBLEM_CHARS_MAX = 500;

/** The last column of the table may be long: a problem that is cut off says nothing. */
function firstLine(problem: string): string {
  const [line = "", ...others] = problem.trim().split("\n");
  const isCut = others.length > 0 || line.length > PROBLEM_CHARS_MAX;
  return `${line.slice(0, PROBLEM_CHARS_MAX)}${isCut ? " ... (--json has all)" : ""}`;
}

function toWire(check: TaskCheck) {
  return {
    task_id: check.taskId,
    ok: check.ok,
    empty_reward: check.emptyReward,
    reference_reward: check.referenceReward,
    problem: check.problem,
  };
}
