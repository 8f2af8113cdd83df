import type { Carry } from "../../job/job.ts";
import type { Task } from "../../job/task.ts";

/** What an agent finds in /workspace/solution.py: the function to complete, or a note. */
export function solutionStub(task: Task): string {
  return typeof task.starter_code === "string" ? task.starter_code : "# Write the solution here.\n";
}

/**
 * The solution that is graded: the file when the agent wrote it, else the first closed python fence of the answer. A
 * fence that leaves out the function it was asked to complete is put after the given code. Null when there is neither.
 */
export function findSolution(task: Task, carry: Carry): string | null {
  const file = carry.artifacts.find((artifact) => artifact.name === "solution.py");
  const written = file === undefined ? "" : new TextDecoder().decode(file.bytes);
  if (written.trim().length > 0 && written !== solutionStub(task)) return written;
  const fence = /```(?:python|py)[^\n]*\n(.*?)\n?```/s.exec(carry.answer ?? "");
  const code = fence?.[1];
  if (code === undefined || code.trim().length === 0) return null;
  const entryPoint = typeof task.entry_point === "string" ? task.entry_point : null;
  const isWhole = entryPoint === null || new RegExp(`^\\s*(async\\s+)?def\\s+${entryPoint}\\b`, "m").test(code);
  return isWhole ? code : `${solutionStub(task)}\n${code}`;
}
