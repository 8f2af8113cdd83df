import { z } from "zod";
import type { Carry } from "../job/job.ts";
import type { Task, TaskFile } from "../job/task.ts";
import type { SandboxFile } from "../sandbox/sandbox.ts";
import type { Handler } from "./handler.ts";

const WORKSPACE = "/workspace/";
/** Only in their plain form: `/workspace//a` and `/a` would have one name, and a name leads back to one path. */
const ArtifactPath = z
  .string()
  .max(1_024)
  .regex(/^(\/(?!\.{1,2}(\/|$))[^/\0]+)+$/);
export const ArtifactPaths = z.array(ArtifactPath).max(100);

/** Paths of RUN's sandbox that are carried to EVAL when they exist: the handler's own and those the task names. */
export function carriedPaths(handler: Handler, task: Task): readonly string[] {
  const named = ArtifactPaths.safeParse(task.artifacts);
  return [...new Set([...handler.carry.artifacts, ...(named.success ? named.data : [])])];
}

/** `solution.py` for /workspace/solution.py; a path outside the workspace is its own name. */
export function artifactName(path: string): string {
  return path.startsWith(WORKSPACE) ? path.slice(WORKSPACE.length) : path;
}

/** The path that a name stands for, in any sandbox. */
export function artifactPath(name: string): string {
  return name.startsWith("/") ? name : `${WORKSPACE}${name}`;
}

/** A task's file as bytes. */
export function toSandboxFile(file: TaskFile): SandboxFile {
  const bytes =
    file.base64 === undefined ? new TextEncoder().encode(file.text ?? "") : Buffer.from(file.base64, "base64");
  return { path: file.path, bytes, ...(file.mode === undefined ? {} : { mode: file.mode }) };
}

const Reference = z.strictObject({
  answer: z.string().nullable().default(null),
  files: z.record(z.string().startsWith("/"), z.string()).default({}),
});

/** A native task's `reference`: what `task check` grades as a perfect run, the answer and files by path. Null without one. */
export function taskReference(task: Task): Carry | null {
  const reference = Reference.safeParse(task.reference);
  if (!reference.success) return null;
  const artifacts = Object.entries(reference.data.files).map(([path, text]) => ({
    name: artifactName(path),
    bytes: new TextEncoder().encode(text),
  }));
  return { answer: reference.data.answer, artifacts };
}
