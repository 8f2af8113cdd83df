import { gt, sql } from "drizzle-orm";
import type { VerbContext } from "../context.ts";
import { jobs } from "../tables.ts";

/** When the earliest retry that is not yet due will be, epoch ms; one that is due is simply claimed. */
export function nextRetry(context: VerbContext): number | null {
  const row = context.db
    .select({ atMs: sql<number | null>`min(${jobs.notBefore})` })
    .from(jobs)
    .where(gt(jobs.notBefore, context.nowMs))
    .get();
  return row?.atMs ?? null;
}
