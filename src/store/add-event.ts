import { lte, sql } from "drizzle-orm";
import { LIMITS } from "../limits.ts";
import type { VerbContext } from "./context.ts";
import type { EventData } from "./event-data.ts";
import { once } from "./once.ts";
import type { StoredEvent } from "./store.ts";
import { events } from "./tables.ts";

/** Appends an event; every so many, deletes those that are too old to be resumed from. */
export function addEvent(context: VerbContext, kind: StoredEvent["kind"], jobId: string, data: EventData): void {
  const { lastInsertRowid } = insertEvent(context.db).run({ kind, jobId, data }) as unknown as {
    lastInsertRowid: number;
  };
  context.commit ??= { jobIds: new Set(), hasResults: false };
  context.commit.jobIds.add(jobId);
  if (kind === "finished") context.commit.hasResults = true;
  const seq = Number(lastInsertRowid);
  if (seq % LIMITS.eventsTrimEvery === 0) {
    context.db
      .delete(events)
      .where(lte(events.seq, seq - LIMITS.eventsKeptMax))
      .run();
  }
}

const insertEvent = once((db) =>
  db
    .insert(events)
    .values({ kind: sql.placeholder("kind"), jobId: sql.placeholder("jobId"), data: sql.placeholder("data") })
    .prepare(),
);
