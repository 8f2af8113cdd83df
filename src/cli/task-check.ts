import { type Clock, deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { DEFAULT_LIMITS } from "../job/limits.ts";
import { silentLog } from "../log.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import { checkTask, type TaskCheck } from "../tasks/check.ts";
import type { Registry } from "../tasks/registry.ts";
import { checkRows, readRows } from "./read-rows.ts";
import { formatReward, formatTable } from "./table.ts";

export interface TaskCheckParts {
  sandboxes: SandboxHost;
  registry: Registry;
  clock: Clock;
}

/**
 * `rolloutd task check PATH`: grades each task for an agent that does nothing, which must not get full marks, and for
 * its reference solution, which must. Needs no model and no server. Exit code 1 when a task fails.
 */
export async function checkTasks(parts: TaskCheckParts, path: string, options: { json: boolean }): Promise<number> {
  const rows = await readRows(path);
  checkRows(path, rows, parts.registry);
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
      (check.problem ?? "").split("\n")[0]?.slice(0, 100) ?? "",
    ]);
    console.log(formatTable([["task", "check", "empty", "reference", "problem"], ...cells]));
    console.log(`${checks.length - failed} ok, ${failed} failed`);
  }
  return failed === 0 ? 0 : 1;
}

async function checkRow(parts: TaskCheckParts, raw: unknown): Promise<TaskCheck> {
  const parsed = parts.registry.parse(raw);
  const late = new RolloutError("eval_timeout", `grading took longer than ${DEFAULT_LIMITS.evalMs} ms`);
  const timer = deadline(parts.clock, 2 * DEFAULT_LIMITS.evalMs, new AbortController().signal, late);
  try {
    const own = { sandboxes: parts.sandboxes, log: silentLog };
    return await checkTask(own, parsed, DEFAULT_LIMITS, timer.signal);
  } finally {
    await timer.release();
  }
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
