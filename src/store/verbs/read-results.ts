import { and, asc, eq, gt, lt, type SQL, sql } from "drizzle-orm";
import { assert, RequestError } from "../../errors.ts";
import type { VerbContext } from "../context.ts";
import { jobsOfRows } from "../job-rows.ts";
import type { ResultRow } from "../store.ts";
import { jobs, meta, results } from "../tables.ts";

interface Query {
  after: number;
  limit: number;
  stream: string | null;
  groupId: string | null;
}

const FIRST_KEY = "results_first";

/** Finished jobs in commit order, with the first and last sequence number of the whole log (`last` 0: it is empty). */
export function readResults(context: VerbContext, query: Query): { rows: ResultRow[]; first: number; last: number } {
  const first = firstKept(context);
  if (query.after < first - 1) {
    throw new RequestError("results_expired", `results before ${first} are no longer kept`, [], { first });
  }
  const filters: SQL[] = [gt(results.seq, query.after)];
  if (query.stream !== null) filters.push(eq(results.stream, query.stream));
  if (query.groupId !== null) filters.push(eq(results.groupId, query.groupId));
  const found = context.db
    .select({ seq: results.seq, job: jobs })
    .from(results)
    .innerJoin(jobs, eq(jobs.id, results.jobId))
    .where(and(...filters))
    .orderBy(asc(results.seq))
    .limit(query.limit)
    .all();
  const whole = jobsOfRows(
    context,
    found.map((row) => row.job),
  );
  const rows = found.map(({ seq }, index) => {
    const job = whole[index];
    assert(job, `result ${seq} has its job`);
    return { seq, job };
  });
  const last = context.db
    .select({ seq: sql<number | null>`max(${results.seq})` })
    .from(results)
    .get()?.seq;
  return { rows, first, last: last ?? first - 1 };
}

/** Takes results before `first` out of the log; the jobs stay readable. */
export function expireResults(context: VerbContext, first: number): void {
  if (first <= firstKept(context)) return;
  context.db.delete(results).where(lt(results.seq, first)).run();
  context.db
    .insert(meta)
    .values({ key: FIRST_KEY, value: String(first) })
    .onConflictDoUpdate({ target: meta.key, set: { value: String(first) } })
    .run();
}

function firstKept(context: VerbContext): number {
  const row = context.db.select().from(meta).where(eq(meta.key, FIRST_KEY)).get();
  return row ? Number(row.value) : 1;
}
