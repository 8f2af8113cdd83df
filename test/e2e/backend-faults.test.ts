import { describe, expect, setDefaultTimeout, test } from "bun:test";
import type { FakeFault } from "../support/fake-model.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";
import { A_SHELL_TASK, bash } from "../support/pipeline.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";

setDefaultTimeout(60_000);

const FAULTS = [
  "die",
  "hang",
  "error500",
  "overload",
  "lengths",
  "nan",
  "garbage",
] as const satisfies readonly FakeFault[];
const JOBS = 6;

interface Result {
  job: {
    outcome: {
      status: string;
      reward: number | null;
      ledger: string;
      trainable: boolean;
      error: { reason: string; blame: string; stage: string } | null;
    };
    attempts: { backend_ids: string[] }[];
  };
  trajectory: { branches: { loss_mask: number[]; logprobs: number[]; turns: { backend_id: string }[] }[] } | null;
}

/** Writes its file, then answers. */
const script = (prompt: string) =>
  prompt.split("<|start|>assistant\n").length === 2 ? bash("echo done > out.txt") : "Done.";

/** A server whose second and later turns go wrong once it is armed. */
function aFaultyModel(fault: FakeFault) {
  let turns = 0;
  let armed = false;
  const server = startFakeVllm({ model: "policy", script, fault: () => (armed && ++turns > JOBS / 2 ? fault : null) });
  const arm = () => {
    armed = true;
  };
  return { server, arm };
}

async function submit(server: ServerProcess, attemptsMax: number): Promise<Result[]> {
  const body = JSON.stringify({ task: A_SHELL_TASK, n: JOBS, limits: { attempts_max: attemptsMax } });
  await fetch(`${server.url}/v1/jobs`, { method: "POST", headers: { "content-type": "application/json" }, body });
  const results: Result[] = [];
  for (let polls = 0; polls < 40 && results.length < JOBS; polls += 1) {
    const page = await fetch(`${server.url}/v1/results?after=${results.length}&wait_s=2`);
    results.push(...((await page.json()) as { results: Result[] }).results);
  }
  return results;
}

describe.each(FAULTS)("a backend that goes wrong in mid-run: %s", (fault) => {
  test("costs nothing when there is a second one: every job finishes with an exact ledger", async () => {
    using folder = aFolder();
    const { server: faulty, arm } = aFaultyModel(fault);
    await using first = faulty;
    await using second = startFakeVllm({ model: "policy", script });
    const flags = ["--data", folder.path, "--turn-ms", "700", "--backend", first.url, "--backend", second.url];
    await using server = await startServerProcess(flags);
    arm();
    const results = await submit(server, 3);
    expect(results).toHaveLength(JOBS);
    for (const { job, trajectory } of results) {
      expect(job.outcome).toMatchObject({ status: "completed", reward: 1, ledger: "exact", trainable: true });
      expect(job.attempts).toHaveLength(1);
      const [branch] = trajectory?.branches ?? [];
      expect(branch?.turns).toHaveLength(2);
      const trained = branch?.logprobs.filter((_, at) => branch.loss_mask[at] === 1) ?? [];
      expect(trained.every((value) => Number.isFinite(value) && value < 0)).toBe(true);
    }
  });

  test("ends the jobs it had with the reason and no reward when it is alone", async () => {
    using folder = aFolder();
    const { server: faulty, arm } = aFaultyModel(fault);
    await using first = faulty;
    const flags = ["--data", folder.path, "--turn-ms", "700", "--backend-wait-ms", "300", "--backend", first.url];
    await using server = await startServerProcess(flags);
    arm();
    const results = await submit(server, 1);
    expect(results).toHaveLength(JOBS);
    const failed = results.filter(({ job }) => job.outcome.status === "failed");
    expect(failed.length).toBeGreaterThan(0);
    for (const { job } of results) {
      if (job.outcome.status !== "failed") expect(job.outcome.reward).toBe(1);
      else
        expect(job.outcome).toMatchObject({ reward: null, trainable: false, error: { blame: "infra", stage: "run" } });
    }
    const reasons = new Set(failed.map(({ job }) => job.outcome.error?.reason ?? ""));
    for (const reason of reasons)
      expect(["backend_unreachable", "backend_invalid", "backend_timeout"]).toContain(reason);
  });
});
