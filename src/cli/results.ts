import type { ApiClient } from "./api-client.ts";
import { printLine, untilInterrupted } from "./output.ts";
import { formatReward } from "./table.ts";
import { WireResults } from "./wire.ts";

export interface ResultsOptions {
  after: number;
  limit: number | null;
  /** Wait for more when the end is reached. */
  follow: boolean;
  /** JSONL with the trajectories on stdout instead of a line for each job. */
  json: boolean;
}

const PAGE_ROWS = 100;
const WAIT_S = 30;

/** `rolloutd results`: the results log from a place on. The last line of the table says where to go on. */
export async function printResults(client: ApiClient, options: ResultsOptions): Promise<void> {
  const place = { after: options.after };
  await untilInterrupted(
    () => printFrom(client, options, place),
    () => `go on with: rolloutd results --after ${place.after}`,
  );
  if (!options.json) await printLine(`next: --after ${place.after}`);
}

/** Moves `place` on with each page. */
async function printFrom(client: ApiClient, options: ResultsOptions, place: { after: number }): Promise<void> {
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  const format = options.json ? "native" : "none";
  while (left > 0) {
    const limit = Math.min(PAGE_ROWS, left);
    const wait = options.follow ? WAIT_S : 0;
    const page = await client.get(
      `/v1/results?after=${place.after}&limit=${limit}&wait_s=${wait}&format=${format}`,
      WireResults,
    );
    for (const result of page.results) {
      await printLine(options.json ? JSON.stringify(result) : resultLine(result));
    }
    left -= page.results.length;
    place.after = page.next;
    if (page.results.length === 0 && !options.follow) break;
  }
}

function resultLine({
  seq,
  job,
}: {
  seq: number;
  job: {
    id: string;
    task_id: string;
    outcome: { status: string; end_reason: string; reward: number | null; ledger: string } | null;
  };
}): string {
  const { outcome } = job;
  const facts =
    outcome === null
      ? ""
      : `${outcome.status}  ${outcome.end_reason}  reward ${formatReward(outcome.reward)}  ${outcome.ledger}`;
  return `${String(seq).padStart(6)}  ${job.id}  ${job.task_id}  ${facts}`;
}
