import { asc, eq } from "drizzle-orm";
import type { VerbContext } from "../context.ts";
import type { Consumer } from "../store.ts";
import { consumers } from "../tables.ts";

/** Sets how far a consumer of the results log came; it may also go back, to read again. */
export function putConsumer(context: VerbContext, input: { name: string; committed: number }): Consumer {
  const { name, committed } = input;
  const values = { committed, updatedAt: context.nowMs };
  context.db
    .insert(consumers)
    .values({ name, ...values })
    .onConflictDoUpdate({ target: consumers.name, set: values })
    .run();
  return { name, committed, updatedAtMs: context.nowMs };
}

/** All consumers by name. */
export function listConsumers(context: VerbContext): readonly Consumer[] {
  const rows = context.db.select().from(consumers).orderBy(asc(consumers.name)).all();
  return rows.map(({ name, committed, updatedAt }) => ({ name, committed, updatedAtMs: updatedAt }));
}

/** Forgets a consumer; false when there was none. */
export function deleteConsumer(context: VerbContext, name: string): boolean {
  return context.db.delete(consumers).where(eq(consumers.name, name)).returning().all().length > 0;
}
