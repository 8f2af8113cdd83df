import { and, asc, eq, gt, sql } from "drizzle-orm";
import type { VerbContext } from "../context.ts";
import type { StoredEvent } from "../store.ts";
import { events } from "../tables.ts";

/** Events after a sequence number, oldest first, of one job or of all. */
export function readEvents(
  context: VerbContext,
  query: { jobId: string | null; after: number; limit: number },
): readonly StoredEvent[] {
  const newer = gt(events.seq, query.after);
  return context.db
    .select()
    .from(events)
    .where(query.jobId === null ? newer : and(eq(events.jobId, query.jobId), newer))
    .orderBy(asc(events.seq))
    .limit(query.limit)
    .all();
}

/** The sequence number of the newest event; 0 when there was none. */
export function lastEvent(context: VerbContext): number {
  const row = context.db
    .select({ seq: sql<number | null>`max(${events.seq})` })
    .from(events)
    .get();
  return row?.seq ?? 0;
}
