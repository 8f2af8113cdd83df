import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import {
  addChecked,
  checkTrajectory,
  LOGPROB_DIFFERENCE_MAX,
  NOTHING_CHECKED,
} from "../../scripts/proof/check-trajectory.ts";
import { type RecordingProxy, startRecordingProxy } from "../../scripts/proof/recording-proxy.ts";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { startLlamaCpp } from "../../scripts/setup/llamacpp.ts";
import { ensureModel } from "../../scripts/setup/model.ts";
import { VLLM_MODEL } from "../../scripts/setup/vllm-server.ts";
import { NativeTrajectory } from "../../src/formats/native.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";
import { endFaults, exampleRows, resultsOf, submitJobs } from "../support/submit.ts";
import { hasNoVllm, onVllm, vllmUrl } from "../support/vllm.ts";

// First answers of a loaded vLLM on a CPU have taken 27 s.
setDefaultTimeout(240_000);

/** One job of each kind of task, two of them agents with a shell. */
async function tasks(): Promise<unknown[]> {
  const [words, code, shell] = await Promise.all([
    exampleRows("gsm8k.jsonl", 1),
    exampleRows("humaneval.jsonl", 1),
    exampleRows("shell-tasks.jsonl", 2),
  ]);
  return [...words, ...code, ...shell];
}

describe.skipIf(hasNoVllm).each(["remote", "local"] as const)(onVllm("rolloutd on vLLM, rendering %s"), (rendering) => {
  const folder = aFolder();
  let proxy: RecordingProxy;
  let server: ServerProcess;

  beforeAll(async () => {
    proxy = startRecordingProxy(vllmUrl);
    const { tokenizer } = await ensureModel(cacheDir(), () => {});
    const local = rendering === "local" ? ["--tokenizer", tokenizer] : [];
    server = await startServerProcess(["--data", join(folder.path, "data"), "--backend", proxy.url, ...local]);
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
    await proxy?.[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  test("stores what the server returned, and the server gives every log-prob again", async () => {
    const sampling = { temperature: 1, max_tokens: 48 };
    const jobIds = await submitJobs(server.url, { tasks: await tasks(), model: VLLM_MODEL, sampling });
    const results = await resultsOf(server.url, jobIds);
    expect(endFaults(results.map(({ job }) => job))).toEqual([]);
    let checked = NOTHING_CHECKED;
    for (const { trajectory } of results) {
      const native = NativeTrajectory.parse(trajectory);
      expect((trajectory as { renderer: string }).renderer).toBe(rendering);
      const on = { url: vllmUrl, model: VLLM_MODEL, answers: proxy.answers };
      checked = addChecked(checked, await checkTrajectory(native, on));
    }
    expect(checked.faults).toEqual([]);
    expect(checked.turns).toBeGreaterThanOrEqual(jobIds.length);
    expect(checked.sampledTokens).toBeGreaterThanOrEqual(checked.turns);
    expect(checked.differenceMax).toBeLessThan(LOGPROB_DIFFERENCE_MAX);
  });

  test("refuses a llama.cpp under the same model's name", async () => {
    await using other = await startLlamaCpp({
      cacheDir: cacheDir(),
      port: 0,
      slots: 1,
      contextTokens: 2_048,
      threads: 1,
    });
    const answer = await fetch(`${server.url}/v1/backends`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ url: other.url, model: VLLM_MODEL }),
    });
    expect(answer.status).toBe(409);
    expect(await answer.json()).toMatchObject({ reason: "backend_mixed" });
  });
});
