import { RolloutError } from "../errors.ts";
import type { VerbContext } from "./context.ts";
import type { OpenDatabase } from "./database.ts";
import { type Answer, type Call, sendError } from "./messages.ts";
import type { Commit } from "./store.ts";
import { VERBS } from "./verbs.ts";

/**
 * Runs calls that arrived together as one transaction, so that one fsync pays for all of them. A call that throws
 * undoes only itself. When the transaction as a whole fails, every call is answered with that failure: nothing that
 * is not on disk is acknowledged.
 */
export function commitTogether(
  database: OpenDatabase,
  calls: readonly Call[],
): { answers: readonly Answer[]; commit: Commit | null } {
  const { client } = database;
  const answers: Answer[] = [];
  const jobIds = new Set<string>();
  let hasResults = false;
  try {
    client.run("BEGIN IMMEDIATE");
    for (const call of calls) {
      const context: VerbContext = { db: database.db, nowMs: call.nowMs, commit: null };
      answers.push(runCall(database, context, call));
      for (const jobId of context.commit?.jobIds ?? []) jobIds.add(jobId);
      hasResults ||= context.commit?.hasResults ?? false;
    }
    client.run("COMMIT");
    return { answers, commit: jobIds.size === 0 ? null : { jobIds, hasResults } };
  } catch (failure) {
    if (client.inTransaction) client.run("ROLLBACK");
    const error = sendError(failure);
    return { answers: calls.map(({ id }) => ({ id, error })), commit: null };
  }
}

function runCall({ client }: OpenDatabase, context: VerbContext, call: Call): Answer {
  client.run("SAVEPOINT call");
  try {
    // The pair of verb and input was checked where the call was made; here the union hides that they belong together.
    const verb = VERBS[call.verb] as (context: VerbContext, input: Call["input"]) => unknown;
    const value = verb(context, call.input);
    client.run("RELEASE call");
    return { id: call.id, value };
  } catch (error) {
    // SQLite itself ends the transaction on a full disk or a failed read; then nothing of it can be kept.
    if (!client.inTransaction) throw error;
    client.run("ROLLBACK TO call");
    client.run("RELEASE call");
    context.commit = null;
    return { id: call.id, error: sendError(error) };
  }
}

/** The answer to calls that come when there is no database. */
export function refuseAll(calls: readonly Call[]): readonly Answer[] {
  const error = sendError(new RolloutError("store_failed", "the store is closed"));
  return calls.map(({ id }) => ({ id, error }));
}
