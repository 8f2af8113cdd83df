import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { startFakeVllm } from "../support/fake-vllm.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { A_SHELL_TASK, bash } from "../support/pipeline.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";

const JOBS = 40;

interface WireJob {
  id: string;
  state: string;
  outcome: { status: string; reward: number | null; ledger: string; turns: number } | null;
  attempts: { stage: string; end_reason: string | null }[];
}

/** Two turns with a shell that takes its time, then an answer; the grader takes its time too. */
const TURNS = [bash("sleep 0.15; echo do > out.txt"), bash("sleep 0.15; echo done > out.txt")];
const script = (prompt: string) => TURNS[prompt.split("<|start|>assistant\n").length - 2] ?? "I am done.";
const TASK = {
  ...A_SHELL_TASK,
  eval: { ...A_SHELL_TASK.eval, command: ["sh", "-c", "sleep 0.1; sh /grader/score.sh"] },
};

async function get<T>(server: ServerProcess, path: string): Promise<T> {
  const response = await fetch(`${server.url}${path}`);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}

async function jobs(server: ServerProcess): Promise<WireJob[]> {
  return (await get<{ jobs: WireJob[] }>(server, `/v1/jobs?limit=${JOBS}`)).jobs;
}

/** Waits until so many jobs are finished and, unless all are, another is at work. */
async function untilFinished(server: ServerProcess, count: number): Promise<WireJob[]> {
  const endMs = performance.now() + 60_000;
  for (;;) {
    const now = await jobs(server);
    const finished = now.filter((job) => job.state === "finished").length;
    const isAtWork = now.some((job) => job.state === "running" || job.state === "evaluating");
    if (finished >= count && (isAtWork || finished === JOBS)) return now;
    if (performance.now() > endMs)
      throw new Error(`only ${finished} of ${count} finished\n${server.log().slice(-2_000)}`);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

describe("kill -9 of the server", () => {
  test("at five moments of a run loses no job, doubles no result and leaves nothing of the old life", async () => {
    const before = residue();
    using folder = aFolder();
    {
      await using model = startFakeVllm({ model: "policy", script });
      const flags = ["--data", join(folder.path, "data"), "--backend", model.url, "--run-workers", "8"];
      let server = await startServerProcess(flags);
      const body = JSON.stringify({ task: TASK, n: JOBS });
      const headers = { "content-type": "application/json", "idempotency-key": "one" };
      const submitted = await fetch(`${server.url}/v1/jobs`, { method: "POST", headers, body });
      expect(submitted.status).toBe(202);
      const first = (await submitted.json()) as { groups: { job_ids: string[] }[] };

      const paid = new Map<string, number>();
      for (const moment of [0, 6, 12, 20, 30]) {
        const now = await untilFinished(server, moment);
        for (const job of now)
          if (job.state === "finished" || job.state === "awaiting_eval") paid.set(job.id, job.attempts.length);
        // In turn: the launcher, which the user sees, and the server itself.
        await server.end("SIGKILL", moment % 4 === 0 ? server.pid : server.serverPid());
        server = await startServerProcess(flags);
      }
      const again = await fetch(`${server.url}/v1/jobs`, { method: "POST", headers, body });
      expect(again.status).toBe(200);
      expect(await again.json()).toEqual(first);

      const all = await untilFinished(server, JOBS);
      expect(all).toHaveLength(JOBS);
      for (const job of all) {
        expect(job.outcome).toMatchObject({ status: "completed", reward: 1, ledger: "exact", turns: 3 });
        // Whoever had finished RUN before a kill did not sample again.
        if (paid.has(job.id)) expect(job.attempts).toHaveLength(paid.get(job.id) ?? 0);
      }
      const log = await get<{ results: { seq: number; job: WireJob }[] }>(
        server,
        "/v1/results?after=0&limit=100&format=none",
      );
      expect(log.results.map((result) => result.seq)).toEqual(Array.from({ length: JOBS }, (_, at) => at + 1));
      expect(new Set(log.results.map((result) => result.job.id))).toEqual(new Set(first.groups[0]?.job_ids));
      expect(await server.end("SIGTERM")).toBe(0);
    }
    expect(await leftSince(before)).toEqual(NOTHING);
  }, 120_000);
});
