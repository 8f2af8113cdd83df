import { and, asc, eq, gt, type SQL, sql } from "drizzle-orm";
import type { Job } from "../../job/job.ts";
import type { VerbContext } from "../context.ts";
import { jobsOfRows } from "../job-rows.ts";
import type { JobFilter } from "../store.ts";
import { jobs } from "../tables.ts";

/** Jobs that pass every given filter, by creation. */
export function listJobs(context: VerbContext, filter: JobFilter): readonly Job[] {
  const rows = context.db
    .select()
    .from(jobs)
    .where(and(...conditions(filter)))
    .orderBy(asc(jobs.id))
    .limit(filter.limit)
    .all();
  return jobsOfRows(context, rows);
}

function conditions(filter: JobFilter): SQL[] {
  const found: SQL[] = [];
  if (filter.state !== undefined) found.push(eq(jobs.state, filter.state));
  if (filter.handler !== undefined) found.push(eq(jobs.handler, filter.handler));
  if (filter.groupId !== undefined) found.push(eq(jobs.groupId, filter.groupId));
  if (filter.stream !== undefined) found.push(eq(jobs.stream, filter.stream));
  if (filter.after !== undefined) found.push(gt(jobs.id, filter.after));
  for (const [key, value] of Object.entries(filter.labels ?? {})) {
    // A join over the labels, not a JSON path: a key may hold dots and quotes.
    found.push(
      sql`exists (select 1 from json_each(${jobs.labels}) as label where label.key = ${key} and label.value = ${value})`,
    );
  }
  return found;
}
