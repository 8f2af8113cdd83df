import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import demoTasks from "../../examples/demo-tasks.jsonl" with { type: "text" };
import { systemClock } from "../clock.ts";
import type { ApiClient } from "./api-client.ts";
import { groupTable } from "./submit.ts";
import { formatReward } from "./table.ts";
import { watchJobs } from "./watch.ts";
import { type WireResult, WireResults, WireSubmitted } from "./wire.ts";

/** What a demo came to; `demo/summary.json` has these fields. */
export interface DemoSummary {
  jobs: number;
  failed: number;
  exact: number;
  forked: number;
  rejected: number;
  mixed_groups: number;
  seconds: number;
}

const GROUP_SIZE = 8;

/**
 * Submits two Python functions, a word problem and a shell task as groups of 8, follows them, and writes
 * `demo/trajectories.jsonl` and `demo/summary.json` below `outDir`. The model is whatever the server has.
 */
export async function runDemo(
  client: ApiClient,
  outDir: string,
  options: { model: string | null },
): Promise<DemoSummary> {
  const startMs = performance.now();
  const folder = join(outDir, "demo");
  await mkdir(folder, { recursive: true });
  const { last } = await client.get("/v1/results?limit=1&format=none&after=0", WireResults);
  const tasks = demoTasks
    .trim()
    .split("\n")
    .map((line): unknown => JSON.parse(line));
  const model = options.model === null ? {} : { model: options.model };
  const body = { tasks, n: GROUP_SIZE, ...model, sampling: { temperature: 1, max_tokens: 48 } };
  const { groups } = await client.post("/v1/jobs", WireSubmitted, body);
  const jobIds = new Set(groups.flatMap((group) => group.job_ids));
  console.log(`${groups.length} groups of ${GROUP_SIZE} submitted to ${client.url}`);

  const file = join(folder, "trajectories.jsonl");
  const writer = Bun.file(file).writer();
  const onResult = async (result: WireResult) => {
    await writer.write(`${JSON.stringify(result)}\n`);
    await writer.flush();
  };
  const tally = await watchJobs(client, { jobIds, after: last, format: "native", onResult, clock: systemClock });
  await writer.end();
  const summary = summarise(groups, tally.results, (performance.now() - startMs) / 1_000);
  await Bun.write(join(folder, "summary.json"), `${JSON.stringify(summary, null, 2)}\n`);
  console.log(`\n${groupTable(groups, tally.results)}`);
  console.log(`mean reward ${formatReward(tally.meanReward)}, without reward: ${tally.failureText}`);
  console.log(`trajectories: ${file}`);
  return summary;
}

/** A group is mixed when its rewards differ: only such groups teach GRPO anything. */
function summarise(groups: WireSubmitted["groups"], results: readonly WireResult[], seconds: number): DemoSummary {
  const outcomes = results.flatMap(({ job }) =>
    job.outcome === null ? [] : [{ group: job.group_id, ...job.outcome }],
  );
  const ledgers = (verdict: string) => outcomes.filter((outcome) => outcome.ledger === verdict).length;
  const mixed = groups.filter((group) => {
    const own = outcomes.filter((outcome) => outcome.group === group.group_id);
    return new Set(own.flatMap((outcome) => (outcome.reward === null ? [] : [outcome.reward]))).size > 1;
  });
  return {
    jobs: results.length,
    failed: outcomes.filter((outcome) => outcome.reward === null).length,
    exact: ledgers("exact"),
    forked: ledgers("forked"),
    rejected: ledgers("rejected"),
    mixed_groups: mixed.length,
    seconds: Number(seconds.toFixed(1)),
  };
}
