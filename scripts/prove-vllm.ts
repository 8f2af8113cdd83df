/**
 * `bun run prove-vllm [--url URL]`: GSM8K, HumanEval and shell agents on a real vLLM through `rolloutd serve`, then
 * every stored token against the server. Exit code 0 only when all jobs finished, none by infrastructure, the stored
 * ids are those the server returned, and it gives every stored log-prob again.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { ApiClient } from "../src/cli/api-client.ts";
import { groupTable } from "../src/cli/submit.ts";
import { watchJobs } from "../src/cli/watch.ts";
import { type WireResult, WireSubmitted } from "../src/cli/wire.ts";
import { systemClock } from "../src/clock.ts";
import { NativeTrajectory } from "../src/formats/native.ts";
import { startServerProcess } from "../test/support/server-process.ts";
import { addChecked, checkTrajectory, LOGPROB_DIFFERENCE_MAX, NOTHING_CHECKED } from "./proof/check-trajectory.ts";
import { startRecordingProxy } from "./proof/recording-proxy.ts";
import { cacheDir } from "./setup/cache.ts";
import { setUpOrExit } from "./setup/set-up.ts";
import { ensureHfModel, ensureVllm } from "./setup/vllm.ts";
import { startVllm, VLLM_MODEL } from "./setup/vllm-server.ts";

/** File below examples/, jobs of each row, longest turn in tokens. */
const SETS = [
  { file: "gsm8k.jsonl", n: 4, maxTokens: 96 },
  { file: "humaneval.jsonl", n: 4, maxTokens: 96 },
  { file: "shell-tasks.jsonl", n: 2, maxTokens: 48 },
] as const;

const { values } = parseArgs({ options: { url: { type: "string" } } });
const say = (line: string) => console.log(line);
const startMs = performance.now();
const seconds = (since: number) => `${((performance.now() - since) / 1_000).toFixed(1)} s`;
await setUpOrExit((line) => say(`set-up: ${line}`));

await using opened = new AsyncDisposableStack();
const vllmUrl = values.url ?? (await openVllm());
const proxy = opened.use(startRecordingProxy(vllmUrl));
const dataDir = await mkdtemp(join(tmpdir(), "rolloutd-proof-"));
opened.defer(() => rm(dataDir, { recursive: true, force: true }));
const server = opened.use(await startServerProcess(["--data", join(dataDir, "data"), "--backend", proxy.url]));

const client = new ApiClient({ url: server.url, token: null });
const runMs = performance.now();
const results: WireResult[] = [];
const groups = (await Promise.all(SETS.map(submit))).flat();
const jobIds = new Set(groups.flatMap((group) => group.job_ids));
const onResult = (result: WireResult) => void results.push(result);
await watchJobs(client, { jobIds, after: 0, format: "native", onResult, clock: systemClock });
say(`\n${groupTable(groups, results)}`);
say(`${results.length} jobs in ${seconds(runMs)}`);

const scoreMs = performance.now();
let checked = NOTHING_CHECKED;
for (const result of results) {
  const trajectory = NativeTrajectory.parse(result.trajectory);
  checked = addChecked(
    checked,
    await checkTrajectory(trajectory, { url: vllmUrl, model: VLLM_MODEL, answers: proxy.answers }),
  );
}
const faults = [...results.flatMap(endFault), ...checked.faults];
say(
  `${checked.branches} branches scored again in ${seconds(scoreMs)}: ${checked.turns} turns as the server answered them,`,
);
say(
  `${checked.sampledTokens} sampled tokens, largest difference of a log-prob ${checked.differenceMax.toExponential(2)} (allowed ${LOGPROB_DIFFERENCE_MAX})`,
);
for (const fault of faults) say(`FAULT ${fault}`);
say(`${faults.length === 0 ? "proved" : "NOT proved"} in ${seconds(startMs)}`);
process.exitCode = faults.length === 0 && results.length > 0 ? 0 : 1;

async function openVllm(): Promise<string> {
  const ready = await ensureVllm(cacheDir(), (line) => say(`set-up: ${line}`));
  if ("missing" in ready) throw new Error(`there is no vLLM here: ${ready.missing}; name a running one with --url`);
  await ensureHfModel(cacheDir(), ready.python, (line) => say(`set-up: ${line}`));
  const sinceMs = performance.now();
  const vllm = opened.use(await startVllm({ cacheDir: cacheDir(), port: 0 }));
  say(`vLLM: ${vllm.url}, up in ${seconds(sinceMs)}`);
  return vllm.url;
}

async function submit(set: (typeof SETS)[number]): Promise<WireSubmitted["groups"]> {
  const text = await Bun.file(join(import.meta.dir, "..", "examples", set.file)).text();
  const tasks = text
    .trim()
    .split("\n")
    .map((line): unknown => JSON.parse(line));
  const sampling = { temperature: 1, max_tokens: set.maxTokens };
  return (await client.post("/v1/jobs", WireSubmitted, { tasks, n: set.n, model: VLLM_MODEL, sampling })).groups;
}

/** How a job ended, where that is not as it must be. */
function endFault({ job }: WireResult): string[] {
  const { outcome } = job;
  const isWell = outcome !== null && outcome.error === null && outcome.reward !== null && outcome.ledger === "exact";
  return isWell
    ? []
    : [`${job.task_id} ${job.id}: ${outcome?.end_reason ?? job.state}, ledger ${outcome?.ledger ?? "none"}`];
}
