import { eq } from "drizzle-orm";
import { LIVE_STATES } from "../../job/state.ts";
import type { VerbContext } from "../context.ts";
import { CANCELLED, finishJob } from "../finish-job.ts";
import { findRow } from "../job-rows.ts";
import { jobs } from "../tables.ts";

/** Marks a job for cancellation; one that waits in a queue is finished here and now. */
export function requestCancel(context: VerbContext, jobId: string): { kind: "finished" | "live" | "unknown" } {
  const row = findRow(context, jobId);
  if (!row) return { kind: "unknown" };
  if (row.state === "finished") return { kind: "finished" };
  context.db.update(jobs).set({ cancelRequested: true }).where(eq(jobs.id, jobId)).run();
  if (LIVE_STATES.includes(row.state)) return { kind: "live" };
  finishJob(context, row, CANCELLED);
  return { kind: "finished" };
}
