import { systemClock } from "../clock.ts";
import { newNonce } from "../ids.ts";
import { createRegistry } from "../tasks/registry.ts";
import type { ApiClient } from "./api-client.ts";
import { checkWritable } from "./output.ts";
import { checkRows, readRows } from "./read-rows.ts";
import { formatReward, formatTable } from "./table.ts";
import { watchJobs } from "./watch.ts";
import { WireBackends, type WireResult, WireResults, WireSubmitted } from "./wire.ts";

export interface SubmitOptions {
  n: number;
  limit: number | null;
  watch: boolean;
  /** JSONL file that gets one `{seq, job, trajectory}` a line; only with `watch`. */
  out: string | null;
  /** Null: the server's only policy model. */
  model: string | null;
  sampling: Readonly<Record<string, unknown>>;
  limits: Readonly<Record<string, unknown>>;
  labels: Readonly<Record<string, string>>;
  priority: number;
}

const TASKS_PER_REQUEST = 200;

/** `rolloutd submit FILE`: checks every row, submits them in parts, and follows them when asked to. Exit code. */
export async function submitFile(client: ApiClient, path: string, options: SubmitOptions): Promise<number> {
  const all = await readRows(path);
  const rows = options.limit === null ? all : all.slice(0, options.limit);
  checkRows(path, rows, createRegistry(systemClock));
  if (options.out !== null) checkWritable(options.out);
  const { last } = await client.get("/v1/results?limit=1&format=none&after=0", WireResults);
  const groups: WireSubmitted["groups"] = [];
  for (let at = 0; at < rows.length; at += TASKS_PER_REQUEST) {
    const tasks = rows.slice(at, at + TASKS_PER_REQUEST).map((row) => row.raw);
    groups.push(...(await submitPart(client, tasks, options)).groups);
  }
  const jobs = groups.length * options.n;
  console.log(`${groups.length} groups of ${options.n}: ${jobs} jobs submitted`);
  await noteUnserved(client, options.model);
  if (!options.watch) {
    console.log(
      formatTable([
        ["group", "task", "jobs", "first job"],
        ...groups.map((group) => [group.group_id, group.task_id, group.job_ids.length, group.job_ids[0] ?? ""]),
      ]),
    );
    console.log(
      `look at one with: rolloutd show JOB; read the results with: rolloutd results --after ${last} --follow`,
    );
    return 0;
  }
  return follow(client, groups, { after: last, out: options.out });
}

/** Jobs wait for a backend however long it takes; without a word that looks like a server that hangs. */
async function noteUnserved(client: ApiClient, model: string | null): Promise<void> {
  const answer = await client.get("/v1/backends", WireBackends).catch(() => null);
  if (answer === null) return; // the jobs are submitted: a hint that cannot be had is no failure
  const isServed = answer.backends.some(
    (backend) =>
      backend.state === "healthy" && backend.role === "policy" && (model === null || backend.model === model),
  );
  if (isServed) return;
  console.error(`no healthy backend serves ${model ?? "a model"} now, so the jobs wait for one: rolloutd backend ls`);
}

/** Sent with a key of its own, so that a repeated request after a broken connection makes no second set of jobs. */
function submitPart(client: ApiClient, tasks: readonly unknown[], options: SubmitOptions): Promise<WireSubmitted> {
  const { n, model, sampling, limits, labels, priority } = options;
  const body = { tasks, n, ...(model === null ? {} : { model }), sampling, limits, labels, priority };
  return client.post("/v1/jobs", WireSubmitted, body, { "idempotency-key": newNonce() });
}

/** Watches the groups' jobs to the end and prints a row for each group. Exit code 1 when a job got no reward. */
export async function follow(
  client: ApiClient,
  groups: WireSubmitted["groups"],
  { after, out }: { after: number; out: string | null },
): Promise<number> {
  const jobIds = new Set(groups.flatMap((group) => group.job_ids));
  const writer = out === null ? null : Bun.file(out).writer();
  const write = async (result: WireResult) => {
    await writer?.write(`${JSON.stringify(result)}\n`);
    await writer?.flush();
  };
  const format = out === null ? "none" : "native";
  const tally = await watchJobs(client, { jobIds, after, format, onResult: write, clock: systemClock });
  await writer?.end();
  console.log(groupTable(groups, tally.results));
  const mean = formatReward(tally.meanReward);
  console.log(`${tally.results.length} jobs, mean reward ${mean}, without reward: ${tally.failureText}`);
  if (out !== null) console.log(`trajectories: ${out}`);
  return tally.failures.size === 0 ? 0 : 1;
}

/** A row for each group: task, the siblings' rewards, turns, sampled tokens, verdict of the ledgers. */
export function groupTable(groups: WireSubmitted["groups"], results: readonly WireResult[]): string {
  const rows = groups.map((group) => {
    const jobs = results.map((result) => result.job).filter((job) => job.group_id === group.group_id);
    const outcomes = jobs.flatMap((job) => (job.outcome === null ? [] : [job.outcome]));
    const sum = (key: "turns" | "sampled_tokens") => outcomes.reduce((total, outcome) => total + outcome[key], 0);
    const ledgers = new Set(outcomes.map((outcome) => outcome.ledger));
    const rewards = outcomes.map((outcome) => formatReward(outcome.reward)).join(" ");
    return [group.task_id, rewards, sum("turns"), sum("sampled_tokens"), [...ledgers].join(", ")];
  });
  return formatTable([["task", "rewards", "turns", "tokens", "ledger"], ...rows]);
}
