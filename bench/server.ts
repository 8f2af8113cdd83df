import { systemClock } from "../src/clock.ts";
import { DEFAULT_LIMITS } from "../src/job/limits.ts";
import { createStore } from "../src/store/client.ts";
import { DEFAULT_SAMPLING } from "../src/trajectory/sampling.ts";
import { A_SHELL_TASK, aPipeline, bash } from "../test/support/pipeline.ts";
import { aFolder } from "../test/support/store.ts";
import { type Measurement, ofRate, ofTimes } from "./measure.ts";

const SUBMISSIONS = 10_000;
const CANCELS = 48;
const ROLLOUTS = 400;

/** Store, turns and cancellation, with real sandboxes and a model that answers at once. */
export async function benchServer(): Promise<Measurement[]> {
  return [await submissions(), ...(await turns()), await cancellation()];
}

/** Single submissions, each durable (fsync) before it counts, 64 in flight. */
async function submissions(): Promise<Measurement> {
  using folder = aFolder();
  await using store = await createStore({ file: `${folder.path}/bench.db`, clock: systemClock });
  const request = {
    model: "policy",
    sampling: DEFAULT_SAMPLING,
    limits: DEFAULT_LIMITS,
    priority: 0,
    stream: null,
    labels: {},
  };
  const taskJson = JSON.stringify({ id: "t", handler: "math", prompt: "x".repeat(800), answer: "1" });
  let left = SUBMISSIONS;
  const startMs = performance.now();
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      while (left-- > 0) await store.submit([{ taskId: "t", handler: "math", taskJson, n: 1, request }], null);
    }),
  );
  return ofRate(
    "durable submissions, one job each, 64 in flight",
    SUBMISSIONS / ((performance.now() - startMs) / 1_000),
    ">= 5,000/s",
  );
}

/** CPU of this process, its Workers included, for one turn on a 4k context with 64 new and 64 sampled tokens. */
async function turns(): Promise<Measurement[]> {
  const script = ({ prompt }: { prompt: string }) =>
    prompt.length < 40_000
      ? `<tool_call>{"name":"think","arguments":{"thought":"x"}}</tool_call>`.padEnd(63, " ")
      : "Done.";
  await using at = await aPipeline({ models: [{ script, contextTokensMax: 100_000 }], limits: { runWorkers: 8 } });
  const task = {
    id: "turns",
    handler: "math",
    prompt: "x".repeat(4_000),
    answer: "1",
    tools: ["think"],
    tool_format: "hermes",
  };
  const limits = { turnsMax: 20, tokensMax: 100_000 };
  const [warm = ""] = await at.submit({ ...task, id: "warm" }, { limits });
  await at.finish(warm);
  const before = process.cpuUsage();
  const startMs = performance.now();
  const ids = await at.submit(task, { n: ROLLOUTS / 20, limits });
  let count = 0;
  for (const id of ids) count += (await at.finish(id)).outcome?.turns ?? 0;
  const { user, system } = process.cpuUsage(before);
  const wallMs = performance.now() - startMs;
  return [
    ofTimes(
      "one agent turn, 4k context: CPU of server, store Worker and scripted model",
      [(user + system) / 1_000 / count],
      "<= 1 ms in the server, tokenizer apart",
    ),
    ofRate("turns, 8 agents at once, model answers at once", count / (wallMs / 1_000), "none"),
  ];
}

/** From the request to the finished job, its sandbox gone; 16 at once in mid-command. */
async function cancellation(): Promise<Measurement> {
  await using at = await aPipeline({
    models: [{ script: () => bash("sleep 60") }],
    limits: { runWorkers: 16, sandboxesMax: 40, readyMax: 16 },
  });
  const all: number[] = [];
  for (let round = 0; round < CANCELS / 16; round += 1) {
    const ids = await at.submit({ ...A_SHELL_TASK, id: `cancel-${round}` }, { n: 16 });
    while ((await at.store.counts()).running < 16) await new Promise((resolve) => setImmediate(resolve));
    await Promise.all(
      ids.map(async (id) => {
        const startMs = performance.now();
        await at.pipeline.cancelJob(id);
        all.push(performance.now() - startMs);
      }),
    );
  }
  return ofTimes("cancel: request to finished, sandbox gone, 16 at once", all, "< 50 ms p99");
}
