import type { Db } from "./database.ts";

/**
 * What a verb works with. It runs inside a transaction that its caller opened and commits, is synchronous, and reads
 * no clock: `nowMs` (whole epoch ms) came with the call.
 */
export interface VerbContext {
  readonly db: Db;
  readonly nowMs: number;
  /** What is told to listeners after the commit: null until an event or a result was added. */
  commit: { jobIds: Set<string>; hasResults: boolean } | null;
}
