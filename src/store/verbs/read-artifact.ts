import { and, eq } from "drizzle-orm";
import type { VerbContext } from "../context.ts";
import { artifacts, jobs } from "../tables.ts";

/** Bytes of a named artifact of a job's current or last attempt; null when there is none. */
export function readArtifact(context: VerbContext, input: { jobId: string; name: string }): Uint8Array | null {
  const row = context.db
    .select({ content: artifacts.content })
    .from(artifacts)
    .innerJoin(jobs, eq(jobs.attemptId, artifacts.attemptId))
    .where(and(eq(jobs.id, input.jobId), eq(artifacts.name, input.name)))
    .get();
  return row?.content ?? null;
}
