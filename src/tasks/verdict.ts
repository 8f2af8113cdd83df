import { z } from "zod";
import { RolloutError } from "../errors.ts";
import type { Verdict } from "../job/job.ts";
import { LIMITS } from "../limits.ts";

const Given = z.object({
  reward: z.number(),
  rewards: z.record(z.string(), z.number()),
  report: z.record(z.string(), z.unknown()),
  log: z.string(),
  grading: z.enum(["separate", "shared_process"]),
});

/**
 * A grader's verdict as it may be kept: rewards are finite, the report is JSON, the log at most `outputBytesMax`
 * characters, of its beginning and end. Throws RolloutError handler_error for what is none: it is never a reward.
 */
export function checkVerdict(given: unknown): Verdict {
  const parsed = Given.safeParse(given);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.map(String).join(".") || "the verdict";
    throw new RolloutError("handler_error", `the grader gave no verdict: ${where}: ${issue?.message}`);
  }
  return { ...parsed.data, report: asJson(parsed.data.report), log: cut(parsed.data.log) };
}

function asJson(report: Readonly<Record<string, unknown>>): Record<string, unknown> {
  try {
    return JSON.parse(JSON.stringify(report)) as Record<string, unknown>;
  } catch (cause) {
    throw new RolloutError("handler_error", `the grader's report is no JSON: ${String(cause)}`, { cause });
  }
}

function cut(log: string): string {
  const half = LIMITS.outputBytesMax / 2;
  if (log.length <= 2 * half) return log;
  const [head, tail] = [log.slice(0, half).toWellFormed(), log.slice(-half).toWellFormed()];
  return `${head}\n[... ${log.length - 2 * half} characters left out ...]\n${tail}`;
}
