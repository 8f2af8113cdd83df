import { asc, eq } from "drizzle-orm";
import type { VerbContext } from "../context.ts";
import type { StoredBackend } from "../store.ts";
import { backends } from "../tables.ts";

/** Keeps a backend; the one with the same id is replaced. */
export function putBackend(context: VerbContext, backend: StoredBackend): void {
  const { id, createdAtMs, profileJson, ...same } = backend;
  const values = { ...same, profile: profileJson, createdAt: createdAtMs };
  context.db
    .insert(backends)
    .values({ id, ...values })
    .onConflictDoUpdate({ target: backends.id, set: values })
    .run();
}

/** All backends in the order in which they were made. */
export function listBackends(context: VerbContext): readonly StoredBackend[] {
  const rows = context.db.select().from(backends).orderBy(asc(backends.createdAt), asc(backends.id)).all();
  return rows.map(({ profile, createdAt, ...same }) => ({ ...same, profileJson: profile, createdAtMs: createdAt }));
}

/** Forgets a backend; false when there was none. */
export function deleteBackend(context: VerbContext, id: string): boolean {
  return context.db.delete(backends).where(eq(backends.id, id)).returning().all().length > 0;
}
