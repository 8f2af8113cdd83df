import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { checkTrajectory } from "../../scripts/proof/check-trajectory.ts";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { startVllm, VLLM_MODEL, type Vllm } from "../../scripts/setup/vllm-server.ts";
import { WireBackend } from "../../src/cli/wire.ts";
import { systemClock } from "../../src/clock.ts";
import { NativeTrajectory } from "../../src/formats/native.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";
import { endFaults, exampleRows, resultsOf, submitJobs } from "../support/submit.ts";
import { hasNoVllm, onVllm, vllmUrl } from "../support/vllm.ts";

// The second vLLM takes a minute to start on shared cores.
setDefaultTimeout(300_000);
const POLL_MS = 20;

describe.skipIf(hasNoVllm)(onVllm("two vLLM servers of one model"), () => {
  const folder = aFolder();
  let second: Vllm;
  let server: ServerProcess;

  beforeAll(async () => {
    second = await startVllm({ cacheDir: cacheDir(), port: 0, unix: join(folder.path, "vllm.sock") });
    const backends = ["--backend", vllmUrl, "--backend", second.url];
    server = await startServerProcess(["--data", join(folder.path, "data"), ...backends]);
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await second?.stop();
    folder[Symbol.dispose]();
  });

  async function backend(url: string): Promise<WireBackend> {
    const answer = (await (await fetch(`${server.url}/v1/backends`)).json()) as { backends: unknown[] };
    const found = answer.backends.map((view) => WireBackend.parse(view)).find((view) => view.url === url);
    if (found === undefined) throw new Error(`no backend ${url}`);
    return found;
  }

  async function untilBackend(url: string, holds: (view: WireBackend) => boolean): Promise<void> {
    while (!holds(await backend(url))) await systemClock.sleep(POLL_MS);
  }

  /** Eight word problems, and `breakIt` once both servers work on some. */
  async function runAndBreak(breakIt: () => void): Promise<void> {
    await untilBackend(second.url, ({ state }) => state === "healthy");
    const sampling = { temperature: 1, max_tokens: 160 };
    const tasks = await exampleRows("gsm8k.jsonl", 2);
    const jobIds = await submitJobs(server.url, { tasks, n: 4, model: VLLM_MODEL, sampling });
    for (const url of [vllmUrl, second.url]) await untilBackend(url, ({ load }) => Number(load.turns) > 0);
    breakIt();
    const results = await resultsOf(server.url, jobIds);
    expect(endFaults(results.map(({ job }) => job))).toEqual([]);
    const ids = [(await backend(second.url)).id, (await backend(vllmUrl)).id];
    const moved = results.filter(({ job }) => {
      const used = job.attempts.flatMap(({ backend_ids }) => backend_ids);
      return ids.every((id) => used.includes(id));
    });
    expect(moved.length).toBeGreaterThan(0);
    for (const { trajectory } of moved) {
      const on = { url: vllmUrl, model: VLLM_MODEL, answers: null };
      expect((await checkTrajectory(NativeTrajectory.parse(trajectory), on)).faults).toEqual([]);
    }
  }

  test("finish every job with an exact ledger when one of them hangs, which comes back once it answers", async () => {
    await runAndBreak(() => process.kill(second.pid, "SIGSTOP"));
    expect((await backend(second.url)).state).toBe("unhealthy");
    process.kill(second.pid, "SIGCONT");
    await untilBackend(second.url, ({ state }) => state === "healthy");
  });

  test("finish every job with an exact ledger when one of them is killed", async () => {
    await runAndBreak(() => process.kill(second.pid, "SIGKILL"));
    await untilBackend(second.url, ({ state }) => state === "unhealthy");
  });
});
