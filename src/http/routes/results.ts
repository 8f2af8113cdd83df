import type { OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { LIMITS } from "../../limits.ts";
import type { ResultRow, Store } from "../../store/store.ts";
import { ResultsWire } from "../answers.ts";
import { readQuery } from "../body.ts";
import { CommitWait } from "../commit-wait.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { ResultsQuery } from "../schemas.ts";
import { jobToWire } from "../to-wire.ts";
import { trajectoryToWire } from "../trajectory-wire.ts";

const PAGE_ROWS = 100;
const NDJSON = "application/x-ndjson";

/** The results log: finished jobs in commit order. */
export function addResultRoutes(app: OpenAPIHono, deps: AppDeps): void {
  mount(
    app,
    {
      method: "get",
      path: "/v1/results",
      summary: "Results after a sequence number; wait_s waits for the first. Accept: application/x-ndjson gives lines",
      tag: "results",
      query: ResultsQuery,
      answers: { 200: ResultsWire },
      problems: [410],
    },
    (c) => answer(c, deps),
  );
}

async function answer(c: Context, deps: AppDeps): Promise<Response> {
  const query = readQuery(c, ResultsQuery);
  const after = query.after ?? 0;
  const limit = query.limit ?? PAGE_ROWS;
  const found = await waitForRows(c, deps, query);
  const { lines, whole } = await toLines(deps.store, found.rows, query.format ?? "native");
  if (c.req.header("accept")?.includes(NDJSON)) {
    c.header("Content-Type", NDJSON);
    return c.body(lines.map((line) => `${line}\n`).join(""));
  }
  // When the page was not full, the whole log was looked at, also past what a filter left out.
  const seen = found.rows[lines.length - 1]?.seq ?? after;
  const next = whole && found.rows.length < limit ? Math.max(after, found.last) : seen;
  c.header("Content-Type", "application/json");
  return c.body(`{"results":[${lines.join(",")}],"next":${next},"last":${found.last}}`);
}

async function waitForRows(c: Context, { store, clock, closing }: AppDeps, query: z.output<typeof ResultsQuery>) {
  const { after = 0, limit = PAGE_ROWS, stream = null, group_id: groupId = null } = query;
  const signal = AbortSignal.any([c.req.raw.signal, closing]);
  const untilMs = clock.nowMs() + (query.wait_s ?? 0) * 1_000;
  using commits = new CommitWait(store, clock, (commit) => commit.hasResults);
  for (;;) {
    commits.arm();
    const found = await store.results({ after, limit, stream, groupId });
    const leftMs = untilMs - clock.nowMs();
    if (found.rows.length > 0 || leftMs <= 0 || signal.aborted) return found;
    await commits.wait(leftMs, signal);
  }
}

/** Results as JSON texts, cut short (`whole` false) when together they would be too large for one answer. */
async function toLines(
  store: Store,
  rows: readonly ResultRow[],
  format: "native" | "none",
): Promise<{ lines: readonly string[]; whole: boolean }> {
  const lines: string[] = [];
  let chars = 0;
  for (const { seq, job } of rows) {
    if (chars > LIMITS.resultsCharsMax) return { lines, whole: false };
    const stored = format === "native" ? await store.trajectory(job.id) : null;
    const trajectory = format === "native" ? { trajectory: stored && trajectoryToWire(stored) } : {};
    const line = JSON.stringify({ seq, job: jobToWire(job), ...trajectory });
    lines.push(line);
    chars += line.length;
  }
  return { lines, whole: true };
}
