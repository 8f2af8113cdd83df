import type { Carry } from "../../job/job.ts";
import type { Task } from "../../job/task.ts";

/** What an agent finds in /workspace/solution.py: the function to complete, or a note. */
export function solutionStub(task: Task): string {
  return typeof task.starter_code === "string" ? task.starter_code : "# Write the solution here.\n";
}

/**
 * The solution that is graded: the file when the agent wrote it, else the first closed python fence of the answer. A
 * fence that leaves out the function it was asked to complete is put after the given code; one that has it, after the
 * imports and helpers that the given code has before that function. Null when there is neither.
 */
export function findSolution(task: Task, carry: Carry): string | null {
  const file = carry.artifacts.find((artifact) => artifact.name === "solution.py");
  const written = file === undefined ? "" : new TextDecoder().decode(file.bytes);
  if (written.trim().length > 0 && written !== solutionStub(task)) return written;
  const fence = /```(?:python|py)[^\n]*\n(.*?)\n?```/s.exec(carry.answer ?? "");
  const code = fence?.[1];
  if (code === undefined || code.trim().length === 0) return null;
  const entryPoint = typeof task.entry_point === "string" ? task.entry_point : null;
  if (entryPoint === null) return code;
  const definition = new RegExp(`^[ \\t]*(async\\s+)?def\\s+${RegExp.escape(entryPoint)}\\b`, "m");
  if (!definition.test(code)) return `${solutionStub(task)}\n${code}`;
  const starter = solutionStub(task);
  return after(starter.slice(0, Math.max(0, starter.search(definition))), code);
}

/** `code` after `preamble`; Python wants imports from __future__ before both. */
function after(preamble: string, code: string): string {
  const future = /^from __future__ import [^\n]*$/gm;
  return [...(code.match(future) ?? []), preamble, code.replaceAll(future, "")].join("\n");
}
