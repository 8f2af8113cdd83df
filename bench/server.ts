import { systemClock } from "../src/clock.ts";
import { DEFAULT_LIMITS } from "../src/job/limits.ts";
import { createStore } from "../src/store/client.ts";
import { DEFAULT_SAMPLING } from "../src/trajectory/sampling.ts";
import { A_SHELL_TASK, aPipeline, bash } from "../test/support/pipeline.ts";
import { aFolder } from "../test/support/store.ts";
import { type Measurement, ofRate, ofTimes } from "./measure.ts";

const SUBMISSIONS = 10_000;
const ROUNDS = 12;

/** Store and cancellation, with real sandboxes and a model that answers at once. */
export async function benchServer(): Promise<Measurement[]> {
  return [await submissions(), ...(await cancellation())];
}

/** Single submissions, each durable (fsync) before it counts, 64 in flight. */
async function submissions(): Promise<Measurement> {
  using folder = aFolder();
  await using store = await createStore({ file: `${folder.path}/bench.db`, clock: systemClock });
  const request = {
    model: "policy",
    sampling: DEFAULT_SAMPLING,
    limits: DEFAULT_LIMITS,
    tokenExact: true,
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

/** 16 agents cancelled at once in mid-command: until the last of their sandboxes is gone, and until the last job says so. */
async function cancellation(): Promise<Measurement[]> {
  const limits = { runWorkers: 16, sandboxesMax: 40, readyMax: 16 };
  await using at = await aPipeline({ models: [{ script: () => bash("sleep 60") }], limits });
  const gone: number[] = [];
  const finished: number[] = [];
  const tick = () => new Promise((resolve) => setImmediate(resolve));
  for (let round = 0; round < ROUNDS; round += 1) {
    const ids = await at.submit({ ...A_SHELL_TASK, id: `cancel-${round}` }, { n: 16 });
    while ((await at.store.counts()).running < 16) await tick();
    const startMs = performance.now();
    const all = Promise.all(ids.map((id) => at.pipeline.cancelJob(id)));
    while (at.sandboxes.live > 0) await tick();
    gone.push(performance.now() - startMs);
    await all;
    finished.push(performance.now() - startMs);
  }
  return [
    ofTimes("cancel of 16 agents at once: request to the last sandbox gone", gone, "< 50 ms p99"),
    ofTimes("cancel of 16 agents at once: request to the last job finished", finished, "none"),
  ];
}
