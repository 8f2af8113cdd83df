import { asc, eq } from "drizzle-orm";
import type { VerbContext } from "../context.ts";
import { jobsOfRows } from "../job-rows.ts";
import type { Group } from "../store.ts";
import { groups, jobs } from "../tables.ts";

/** A group with its jobs in the order of their samples; null when there is none. */
export function readGroup(context: VerbContext, id: string): Group | null {
  const group = context.db.select().from(groups).where(eq(groups.id, id)).get();
  if (!group) return null;
  const rows = context.db.select().from(jobs).where(eq(jobs.groupId, id)).orderBy(asc(jobs.sample)).all();
  return {
    id: group.id,
    taskId: group.taskId,
    taskJson: group.task,
    createdAtMs: group.createdAt,
    jobs: jobsOfRows(context, rows),
  };
}
