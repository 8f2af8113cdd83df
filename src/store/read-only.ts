import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { drizzle } from "drizzle-orm/bun-sqlite";
import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import type { VerbContext } from "./context.ts";
import type { StoredTrajectory } from "./store.ts";
import { listJobs } from "./verbs/list-jobs.ts";
import { readTrajectory } from "./verbs/read-trajectory.ts";

/** One trajectory of a database, or why it cannot be read. */
export type Inspected = { jobId: string; trajectory: StoredTrajectory } | { jobId: string; problem: string };

/**
 * Reads the trajectories of a database without a server and beside one: nothing is locked and nothing is written. Throws
 * RolloutError store_failed when `file` is no database of this program.
 */
export function* readTrajectories(file: string): Generator<Inspected> {
  if (!existsSync(file)) throw new RolloutError("store_failed", `${file}: there is no such database`);
  using client = openReadOnly(file);
  const context: VerbContext = { db: drizzle({ client }), nowMs: 0, commit: null };
  let after = "";
  for (;;) {
    const jobs = listJobs(context, { after, limit: LIMITS.pageRowsMax });
    for (const job of jobs) {
      const inspected = inspect(context, job.id);
      if (inspected !== null) yield inspected;
      after = job.id;
    }
    if (jobs.length < LIMITS.pageRowsMax) return;
  }
}

function openReadOnly(file: string): Database {
  try {
    const client = new Database(file, { readonly: true, strict: true });
    client.query("SELECT count(*) FROM jobs").get();
    return client;
  } catch (cause) {
    const detail = cause instanceof Error ? cause.message : String(cause);
    throw new RolloutError("store_failed", `${file} cannot be read: ${detail}`, { cause });
  }
}

function inspect(context: VerbContext, jobId: string): Inspected | null {
  try {
    const trajectory = readTrajectory(context, jobId);
    return trajectory === null ? null : { jobId, trajectory };
  } catch (cause) {
    // A blob that was damaged no longer decodes: that is a finding about this job, not the end of the check.
    return { jobId, problem: cause instanceof Error ? cause.message : String(cause) };
  }
}
