import { createHash } from "node:crypto";
import type { z } from "zod";
import type { InputFault } from "../errors.ts";
import { Task } from "../job/task.ts";
import { humanEvalTask } from "./code/human-eval.ts";
import { taskInvalid } from "./invalid.ts";
import { gsm8kTask } from "./math/gsm8k.ts";

/** Row forms that are taken as they are, in the order they are tried. Native tasks name their handler. */
const ROW_FORMS: readonly RowForm[] = [
  { name: "GSM8K", fields: ["question", "answer"], toTask: gsm8kTask },
  { name: "HumanEval", fields: ["task_id", "prompt", "entry_point", "test"], toTask: humanEvalTask },
];

const ACCEPTED_FORMS = [
  "a native task {id, handler, prompt | messages, ...}",
  ...ROW_FORMS.map((form) => `a ${form.name} row {${form.fields.join(", ")}}`),
].join("; ");

export interface RowForm {
  name: string;
  /** All of them present: the row is taken for this form. */
  fields: readonly string[];
  /** The native task, unparsed; throws RequestError task_invalid. `rowId` is stable for equal rows. */
  toTask(row: Readonly<Record<string, unknown>>, rowId: string): Record<string, unknown>;
}

/** A task from whatever row it came as. Throws RequestError task_invalid that names the field and the accepted forms. */
export function parseTask(raw: unknown): Task {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
    throw taskInvalid("a task is a JSON object", [{ path: "", message: "is not an object", accepted: ACCEPTED_FORMS }]);
  }
  const row = raw as Readonly<Record<string, unknown>>;
  const native = "handler" in row ? row : recognise(row);
  const parsed = Task.safeParse(native);
  if (!parsed.success) throw taskInvalid("the task does not fit its schema", parsed.error.issues.map(toFault));
  const task = parsed.data;
  if (task.prompt === undefined && task.messages === undefined) {
    throw taskInvalid("nothing is asked", [{ path: "prompt", message: "is missing", accepted: "prompt or messages" }]);
  }
  if (task.prompt !== undefined && task.messages !== undefined) {
    const message = "is given beside messages";
    throw taskInvalid("two prompts", [{ path: "prompt", message, accepted: "prompt or messages, not both" }]);
  }
  for (const [at, file] of task.files.entries()) {
    if ((file.text === undefined) !== (file.base64 === undefined)) continue;
    throw taskInvalid("a file without content", [
      { path: `files.${at}`, message: "needs exactly one of text and base64" },
    ]);
  }
  return task;
}

function recognise(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const form = ROW_FORMS.find((candidate) => candidate.fields.every((field) => field in row));
  if (form) return form.toTask(row, createHash("sha256").update(JSON.stringify(row)).digest("hex").slice(0, 12));
  const near = ROW_FORMS.map((candidate) => ({
    candidate,
    missing: candidate.fields.filter((field) => !(field in row)),
  })).sort((left, right) => left.missing.length - right.missing.length)[0];
  const isNear = near !== undefined && near.missing.length < near.candidate.fields.length;
  throw taskInvalid("the row has no known form", [
    {
      path: isNear ? (near.missing[0] ?? "") : "handler",
      message: isNear ? `is missing for a ${near.candidate.name} row` : "is missing",
      accepted: ACCEPTED_FORMS,
    },
  ]);
}

/** One issue of zod as a fault: the dotted path, and what would be accepted where zod knows it. */
function toFault(issue: z.core.$ZodIssue): InputFault {
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    return { path: [path, issue.keys[0]].filter(Boolean).join("."), message: "is not a known field" };
  }
  return { path, message: issue.message };
}
