import { and, eq, isNull } from "drizzle-orm";
import type { JobError, Verdict } from "../job/job.ts";
import type { VerbContext } from "./context.ts";
import { evaluations } from "./tables.ts";

/** Closes the evaluation at work of an attempt, if there is one, with a verdict or with why there is none. */
export function endEvaluation(
  context: VerbContext,
  attemptId: string,
  end: { verdict: Verdict } | { error: JobError },
) {
  const values =
    "error" in end
      ? { error: end.error }
      : {
          reward: end.verdict.reward,
          rewards: { ...end.verdict.rewards },
          report: { ...end.verdict.report },
          log: end.verdict.log,
          grading: end.verdict.grading,
        };
  context.db
    .update(evaluations)
    .set({ endedAt: context.nowMs, ...values })
    .where(and(eq(evaluations.attemptId, attemptId), isNull(evaluations.endedAt)))
    .run();
}
