import type { ApiClient } from "./api-client.ts";
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
  let { after } = options;
  let left = options.limit ?? Number.POSITIVE_INFINITY;
  const format = options.json ? "native" : "none";
  while (left > 0) {
    const limit = Math.min(PAGE_ROWS, left);
    const wait = options.follow ? WAIT_S : 0;
    const page = await client.get(
      `/v1/results?after=${after}&limit=${limit}&wait_s=${wait}&format=${format}`,
      WireResults,
    );
    for (const result of page.results) {
      if (options.json) console.log(JSON.stringify(result));
      else console.log(resultLine(result));
    }
    left -= page.results.length;
    after = page.next;
    if (page.results.length === 0 && !options.follow) break;
  }
  if (!options.json) console.log(`next: --after ${after}`);
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
