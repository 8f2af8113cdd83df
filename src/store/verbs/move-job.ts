import { eq } from "drizzle-orm";
import { assert } from "../../errors.ts";
import type { JobTiming } from "../../job/job.ts";
import type { State } from "../../job/state.ts";
import type { VerbContext } from "../context.ts";
import { currentRow } from "../job-rows.ts";
import { moveState } from "../move-state.ts";
import { attempts } from "../tables.ts";

interface Input {
  jobId: string;
  attemptId: string;
  from: State;
  to: State;
  timing: Partial<JobTiming>;
}

/** Moves a job within an attempt: to `ready` and to `running`. Every other move has a verb of its own. */
export function moveJob(context: VerbContext, input: Input): void {
  const row = currentRow(context, input.jobId, input.attemptId);
  assert(row.state === input.from, `job ${row.id} is ${row.state}, not ${input.from}`);
  assert(input.to === "ready" || input.to === "running", `a move to ${input.to} has a verb of its own`);
  moveState(context, row, input.to, input.timing);
  if (input.to === "running") {
    context.db.update(attempts).set({ stage: "run" }).where(eq(attempts.id, input.attemptId)).run();
  }
}
