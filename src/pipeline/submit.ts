import { type InputFault, RequestError } from "../errors.ts";
import { DEFAULT_LIMITS, JobLimits, type LimitsMax, limitsAbove } from "../job/limits.ts";
import type { Task } from "../job/task.ts";
import { recipeNames } from "../sandbox/images/recipes.ts";
import { problemOfName } from "../sandbox/images/store-folders.ts";
import type { NewGroup } from "../store/store.ts";
import type { Registry } from "../tasks/registry.ts";
import { TOOL_NAMES, toolClash } from "../tools/toolbox.ts";
import type { Submission } from "./rollouts.ts";

/** Limits of a job as they are written in requests, tasks and settings. */
export const LIMIT_NAMES: readonly string[] = Object.keys(DEFAULT_LIMITS).map(toSnake);

/** What a submission is checked against. */
export interface SubmitChecks {
  registry: Registry;
  images: readonly string[];
  limitsMax: LimitsMax;
}

/**
 * The groups a submission asks for. Throws one RequestError with a fault for each bad task, `tasks.6.answer`; the
 * reason is that of the first. Nothing is stored then.
 */
export function planSubmission(submission: Submission, checks: SubmitChecks): NewGroup[] {
  checkMaxima(submission.request.limits, checks.limitsMax, "field_invalid");
  const groups: NewGroup[] = [];
  const faults: InputFault[] = [];
  let first: RequestError | null = null;
  const positions = new Map<string, number>();
  for (const [at, raw] of submission.tasks.entries()) {
    try {
      const group = planGroup(raw, submission, checks);
      const earlier = positions.get(group.taskId);
      if (earlier !== undefined) {
        const message = `is the id of tasks.${earlier} too`;
        throw new RequestError("task_duplicate", `task ids repeat: ${group.taskId}`, [{ path: "id", message }]);
      }
      positions.set(group.taskId, at);
      groups.push(group);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      first ??= error;
      faults.push(...error.faults.map((fault) => ({ ...fault, path: joinPath(`tasks.${at}`, fault.path) })));
    }
  }
  if (first) throw new RequestError(first.reason, first.detail, faults);
  return groups;
}

function planGroup(raw: unknown, submission: Submission, checks: SubmitChecks): NewGroup {
  const { task, handler } = checks.registry.parse(raw);
  checkImage(task, checks.images);
  checkTools(handler.setup(task).tools);
  const limits = mergeLimits(submission.request.limits, task);
  checkMaxima(limits, checks.limitsMax, "task_invalid");
  return {
    taskId: task.id,
    handler: handler.name,
    taskJson: JSON.stringify(raw),
    n: submission.n,
    request: { ...submission.request, limits },
  };
}

/** A task's own limits win over the request's. */
function mergeLimits(limits: JobLimits, task: Task): JobLimits {
  const own = Object.fromEntries(Object.entries(task.limits).map(([key, value]) => [toCamel(key), value]));
  const parsed = JobLimits.partial().safeParse(own);
  if (parsed.success) return { ...limits, ...stripUndefined(parsed.data) };
  throw new RequestError(
    "task_invalid",
    "limits of the task",
    parsed.error.issues.map((issue) => {
      if (issue.code === "unrecognized_keys") {
        const path = `limits.${toSnake(issue.keys[0] ?? "")}`;
        return { path, message: "is not a known limit", accepted: LIMIT_NAMES.join(", ") };
      }
      const key = String(issue.path[0] ?? "");
      return { path: `limits.${toSnake(key)}`, message: issue.message, accepted: rangeOf(key) };
    }),
  );
}

function rangeOf(key: string): string {
  const range = new Map(Object.entries(JobLimits.shape)).get(key);
  return `integer from ${range?.minValue} to ${range?.maxValue} (${range?.description})`;
}

/** Whoever runs the server says what its machine can bear. */
function checkMaxima(limits: JobLimits, max: LimitsMax, reason: "field_invalid" | "task_invalid"): void {
  const faults = limitsAbove(limits, max).map(({ key, max: bound }) => ({
    path: `limits.${toSnake(key)}`,
    message: `is above this server's maximum of ${bound}`,
    accepted: `at most ${bound}`,
  }));
  if (faults.length > 0) throw new RequestError(reason, "limits above the server's maxima", faults);
}

/** Throws RequestError image_unknown, with the command that would provide it, unless the task's image is one of `images`. */
export function checkImage(
  task: Task,
  images: readonly string[],
  recipes: readonly string[] = recipeNames(null),
): void {
  if (images.includes(task.image)) return;
  const accepted = images.join(", ");
  const detail = `no image is named ${JSON.stringify(task.image)}; on the server's machine, ${howToProvide(task.image, recipes)}`;
  throw new RequestError("image_unknown", detail, [{ path: "image", message: "is unknown", accepted }]);
}

/** The command that would provide an image of that name. */
function howToProvide(name: string, recipes: readonly string[]): string {
  if (recipes.includes(name)) return `\`rolloutd image build ${name}\` makes it`;
  const what = problemOfName(name) === null ? name : "NAME";
  return `\`rolloutd image import ${what} ARCHIVE\` or \`rolloutd image build RECIPE --name ${what}\` makes one`;
}

function checkTools(tools: readonly string[]): void {
  const unknown = tools.findIndex((tool) => !TOOL_NAMES.includes(tool));
  const clash = toolClash(tools);
  if (clash !== null) {
    throw new RequestError("task_invalid", `${clash.join(" and ")} are shown to the model under one name`, [
      {
        path: "tools",
        message: `names ${clash.join(" and ")}, which the model is shown as one tool: choose one`,
        accepted: clash.join(" or "),
      },
    ]);
  }
  if (unknown < 0) return;
  const accepted = TOOL_NAMES.join(", ");
  throw new RequestError("task_invalid", `no tool is named ${JSON.stringify(tools[unknown])}`, [
    { path: `tools.${unknown}`, message: "is unknown", accepted },
  ]);
}

function joinPath(base: string, path: string): string {
  return path === "" ? base : `${base}.${path}`;
}

function toCamel(key: string): string {
  return key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
}

function toSnake(key: string): string {
  return key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function stripUndefined<T extends object>(partial: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  const entries = Object.entries(partial).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as { [K in keyof T]: Exclude<T[K], undefined> };
}
