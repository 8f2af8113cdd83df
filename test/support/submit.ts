import { join } from "node:path";
import { type WireJob, type WireResult, WireResults, WireSubmitted } from "../../src/cli/wire.ts";

const EXAMPLES = join(import.meta.dir, "../../examples");

/** The first rows of a file below examples/. */
export async function exampleRows(file: string, count: number): Promise<unknown[]> {
  const lines = (await Bun.file(join(EXAMPLES, file)).text()).trim().split("\n").slice(0, count);
  return lines.map((line): unknown => JSON.parse(line));
}

/** Submits and gives the ids of the jobs. */
export async function submitJobs(url: string, body: Record<string, unknown>): Promise<string[]> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/v1/jobs`, { method: "POST", headers, body: JSON.stringify(body) });
  if (response.status !== 202) throw new Error(`submit: ${response.status} ${await response.text()}`);
  return WireSubmitted.parse(await response.json()).groups.flatMap((group) => group.job_ids);
}

/** The native results of these jobs, once all are finished; the test's time limit is the bound. */
export async function resultsOf(url: string, jobIds: readonly string[]): Promise<WireResult[]> {
  const found: WireResult[] = [];
  for (let after = 0; found.length < jobIds.length; ) {
    const response = await fetch(`${url}/v1/results?after=${after}&limit=100&wait_s=5&format=native`);
    if (!response.ok) throw new Error(`results: ${response.status} ${await response.text()}`);
    const page = WireResults.parse(await response.json());
    found.push(...page.results.filter(({ job }) => jobIds.includes(job.id)));
    after = page.next;
  }
  return found;
}

/** What is not well with a finished job, in words: it must have a reward and an exact ledger. */
export function endFaults(jobs: readonly WireJob[]): string[] {
  return jobs.flatMap(({ id, task_id, outcome }) => {
    const isWell = outcome?.ledger === "exact" && outcome.reward !== null && outcome.error === null;
    return isWell ? [] : [`${task_id} ${id}: ${outcome?.end_reason}, ledger ${outcome?.ledger}`];
  });
}
