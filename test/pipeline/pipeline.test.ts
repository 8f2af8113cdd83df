import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { verify } from "../../src/trajectory/verify.ts";
import { startFakeChat } from "../support/fake-chat.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { A_SHELL_TASK, A_WORD_TASK, aPipeline, bash } from "../support/pipeline.ts";
import { aFolder, rejectionOf } from "../support/store.ts";
import { until } from "../support/until.ts";

const NO_FENCE = "I am done.";

/** A script that answers by the number of the turn within its conversation. */
const byTurn = (turns: readonly string[]) => ({
  script: ({ prompt }: { prompt: string }) => turns[prompt.split("<|start|>assistant\n").length - 2] ?? NO_FENCE,
});

/** An agent's Python that overwrites the code of the sandbox's first process and kills the rest. */
const BRING_DOWN_PID_1 = `\`\`\`python
import os
with open("/proc/1/mem", "r+b", buffering=0) as memory:
    for line in open("/proc/1/maps").read().splitlines():
        span, mode = line.split()[:2]
        if "x" in mode and "[" not in line:
            start, end = (int(part, 16) for part in span.split("-"))
            memory.seek(start)
            memory.write(b"\\xcc" * (end - start))
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) not in (1, os.getpid()): os.kill(int(pid), 9)
\`\`\``;

setDefaultTimeout(30_000);

describe("Pipeline", () => {
  test("brings a one-turn task from submission to an exact, graded, trainable trajectory", async () => {
    await using at = await aPipeline({ models: [{ script: () => "3 + 4 = 7\nANSWER: 7" }] });
    const [jobId = ""] = await at.submit(A_WORD_TASK);
    const job = await at.finish(jobId);
    expect(job.outcome).toMatchObject({
      status: "completed",
      endReason: "answered",
      reward: 1,
      trainable: true,
      grading: "separate",
      ledger: "exact",
      turns: 1,
      policyVersionMin: "0",
    });
    const stored = await at.store.trajectory(jobId);
    expect(verify(stored?.turns ?? [], stored?.branches ?? []).verdict).toBe("exact");
  });

  test("gives a job that takes text alone to such a server, and never trains on it", async () => {
    await using chat = startFakeChat({ script: () => "3 + 4 = 7\nANSWER: 7", model: "policy" });
    await using at = await aPipeline({ models: [] });
    const plain = { model: "policy", role: "policy", apiKey: null, weight: 1, policyVersion: null } as const;
    await at.backends.add({ ...plain, url: chat.url, kind: "chat", tokenizer: null }, { probe: true });
    const [refused = ""] = await at.submit(A_WORD_TASK, { limits: { attemptsMax: 1 } });
    const { outcome } = await at.finish(refused);
    expect(outcome).toMatchObject({ status: "failed", endReason: "backend_invalid", reward: null });
    expect(outcome?.error?.detail).toContain("text alone");
    const [taken = ""] = await at.submit(A_WORD_TASK, { tokenExact: false });
    const job = await at.finish(taken);
    expect(job.tokenExact).toBe(false);
    expect(job.outcome).toMatchObject({ status: "completed", reward: 1, ledger: "text", trainable: false });
  });

  test("keeps every attempt to use the network in the trajectory, and gives graders none", async () => {
    const fetch = `python3 -c "import urllib.request as u; u.urlopen('http://other.example/')" 2>&1 | tail -1; echo done > out.txt`;
    await using at = await aPipeline({ models: [byTurn([bash(fetch)])] });
    const [jobId = ""] = await at.submit({ ...A_SHELL_TASK, network: { allow: ["open.example:443"] } });
    expect(await at.finish(jobId)).toMatchObject({ outcome: { reward: 1 } });
    expect((await at.store.trajectory(jobId))?.network).toMatchObject({
      attempts: [
        {
          host: "other.example",
          port: 80,
          refused: "other.example:80 is not in this task's network list",
          address: null,
        },
      ],
      leftOut: 0,
    });
    const [without = ""] = await at.submit(A_SHELL_TASK);
    await at.finish(without);
    expect((await at.store.trajectory(without))?.network).toBeNull();
  });

  test("lets an agent work in its sandbox over several turns and grades what it left in another", async () => {
    const before = residue();
    {
      await using at = await aPipeline({
        models: [
          byTurn([bash("echo do > out.txt"), bash("printf 'ne' >> out.txt; cat out.txt"), bash("echo done > out.txt")]),
        ],
      });
      const [jobId = ""] = await at.submit(A_SHELL_TASK);
      const job = await at.finish(jobId);
      expect(job.outcome).toMatchObject({ status: "completed", reward: 1, turns: 4, grading: "shared_process" });
      expect(job.artifacts).toEqual([{ name: "out.txt", bytes: 5 }]);
      const stored = await at.store.trajectory(jobId);
      expect(stored?.toolResults.map((results) => results[0]?.output)).toEqual(["", "do\nne", "", undefined]);
      expect(verify(stored?.turns ?? [], stored?.branches ?? []).verdict).toBe("exact");
      expect(at.sandboxes.live).toBe(0);
    }
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("keeps the whole of a long tool output as an artifact, which the grader does not get", async () => {
    const flood = "for i in $(seq 1 9999); do printf '%s\\0\\n' $i; done";
    const task = {
      ...A_SHELL_TASK,
      eval: { command: ["sh", "-c", "ls /workspace | grep -q output- && echo 0 || echo 1"] },
    };
    await using at = await aPipeline({ models: [byTurn([bash(`echo x > out.txt; ${flood}`), bash("echo short")])] });
    const [jobId = ""] = await at.submit(task);
    const job = await at.finish(jobId);
    expect(job.outcome).toMatchObject({ status: "completed", reward: 1 });
    const whole = Array.from({ length: 9_999 }, (_, i) => `${i + 1}\0\n`).join("");
    expect(job.artifacts).toEqual([
      { name: "out.txt", bytes: 2 },
      { name: "output-0-1.txt", bytes: whole.length },
    ]);
    expect(Buffer.from((await at.store.artifact(jobId, "output-0-1.txt")) ?? []).toString()).toBe(whole);
    const stored = await at.store.trajectory(jobId);
    expect(stored?.toolResults.slice(0, 2)).toMatchObject([
      [{ truncated: true, signal: null, artifacts: ["output-0-1.txt"] }],
      [{ truncated: false, output: "short\n", artifacts: [] }],
    ]);
    expect(stored?.toolResults[0]?.[0]?.output).toContain(
      `[all ${whole.length} bytes are kept outside as output-0-1.txt]`,
    );
  });

  test("lets an agent answer a program that asks, on a terminal", async () => {
    const call = (args: Record<string, unknown>) =>
      `<tool_call>${JSON.stringify({ name: "bash", arguments: args })}</tool_call>`;
    const ask = "read -p 'Word? ' word; echo $word > out.txt";
    const turns = [call({ command: ask }), call({ command: "done", is_input: true })];
    const task = { ...A_SHELL_TASK, tool_format: "hermes", tools: ["bash_interactive"], limits: { tool_ms: 1_000 } };
    await using at = await aPipeline({ models: [byTurn(turns)] });
    const [jobId = ""] = await at.submit(task);
    expect((await at.finish(jobId)).outcome).toMatchObject({ status: "completed", reward: 1 });
    const stored = await at.store.trajectory(jobId);
    expect(stored?.tools.map((tool) => tool.name)).toEqual(["bash"]);
    expect(stored?.toolResults[0]?.[0]?.output).toStartWith("Word? \n[The command still runs after 1000 ms.");
  });

  test.each([
    ["turns_max", { turnsMax: 2 }, bash("true")],
    ["tokens_max", { tokensMax: 5 }, "a very long answer"],
    ["run_timeout", { runMs: 300 }, bash("sleep 30")],
    ["sandbox_limit", {}, BRING_DOWN_PID_1],
  ] as const)("grades as truncated what ended by %s", async (endReason, limits, turn) => {
    await using at = await aPipeline({ models: [{ script: () => turn }] });
    const [jobId = ""] = await at.submit({ ...A_SHELL_TASK, tools: ["bash", "python"] }, { limits });
    const { outcome, attempts } = await at.finish(jobId);
    expect(outcome).toMatchObject({ status: "truncated", endReason, reward: 0, error: null });
    expect(attempts).toHaveLength(1);
  });

  test("ends a model that never writes a readable call with format_errors", async () => {
    await using at = await aPipeline({
      models: [{ script: ({ index }) => `${bash(`echo ${index}`)}\n${bash("echo b")}` }],
    });
    const [jobId = ""] = await at.submit(A_SHELL_TASK);
    expect((await at.finish(jobId)).outcome).toMatchObject({ endReason: "format_errors", reward: 0 });
  });

  test("ends a model that repeats itself with repetition", async () => {
    await using at = await aPipeline({ models: [{ script: () => bash("true") }] });
    const [jobId = ""] = await at.submit(A_SHELL_TASK);
    expect((await at.finish(jobId)).outcome).toMatchObject({ endReason: "repetition", reward: 0 });
  });

  test.each(["die", "error500", "lengths", "nan", "empty"] as const)(
    "gives no reward but the reason when the only backend answers with: %s",
    async (fault) => {
      const model = { script: () => "ANSWER: 7", fault: (what: string) => (what === "complete" ? fault : null) };
      await using at = await aPipeline({ models: [model], backendWaitMs: 50 });
      const [jobId = ""] = await at.submit(A_WORD_TASK, { limits: { attemptsMax: 2 } });
      const { outcome, attempts } = await at.finish(jobId);
      expect(outcome).toMatchObject({
        status: "failed",
        reward: null,
        trainable: false,
        error: { blame: "infra", stage: "run" },
      });
      expect(["backend_unreachable", "backend_invalid"]).toContain(outcome?.error?.reason ?? "");
      expect(attempts).toHaveLength(2);
    },
  );

  test("moves a job's turns to the other backend, with the same ids, when its own dies between two turns", async () => {
    const script = byTurn([bash("echo done > out.txt")]);
    let calls = 0;
    const dying = {
      ...script,
      fault: (what: string) => (what === "complete" && ++calls > 1 ? ("die" as const) : null),
    };
    await using at = await aPipeline({ models: [dying, script] });
    const ids = await at.submit(A_SHELL_TASK, { n: 4 });
    for (const id of ids) {
      const job = await at.finish(id);
      expect(job.outcome).toMatchObject({ status: "completed", reward: 1, ledger: "exact" });
      expect(job.attempts).toHaveLength(1);
    }
  });

  test("blames the task, without a reward, when its grader breaks", async () => {
    await using at = await aPipeline({ models: [{ script: () => NO_FENCE }] });
    const [jobId = ""] = await at.submit({ ...A_SHELL_TASK, eval: { command: ["false"] } });
    const { outcome } = await at.finish(jobId);
    expect(outcome).toMatchObject({
      status: "failed",
      endReason: "handler_error",
      reward: null,
      error: { blame: "task", stage: "eval" },
      turns: 1,
    });
  });

  test("keeps the sampled turns when EVAL has to be repeated", async () => {
    await using at = await aPipeline({ models: [{ script: () => NO_FENCE }] });
    const [jobId = ""] = await at.submit(
      { ...A_SHELL_TASK, eval: { command: ["sleep", "60"] } },
      { limits: { evalMs: 200, attemptsMax: 2 } },
    );
    const job = await at.finish(jobId);
    expect(job.outcome).toMatchObject({ status: "failed", endReason: "eval_timeout", reward: null, turns: 1 });
    expect(job.attempts).toHaveLength(1);
  });

  test("waits in the queue for a backend that was never there", async () => {
    await using at = await aPipeline({ models: [] });
    const [jobId = ""] = await at.submit(A_WORD_TASK);
    expect((await at.pipeline.waitForJob(jobId, 50, new AbortController().signal)).state).toBe("queued");
    expect((await at.pipeline.cancelJob(jobId)).outcome).toMatchObject({
      status: "cancelled",
      endReason: "cancelled",
      reward: null,
    });
  });

  test("cancels an agent in the middle of a tool call and leaves no process of it", async () => {
    const before = residue();
    {
      await using at = await aPipeline({ models: [{ script: () => bash("sleep 60") }] });
      const [jobId = ""] = await at.submit(A_SHELL_TASK);
      await until(async () => (await at.store.trajectory(jobId))?.turns.length === 1);
      const job = await at.pipeline.cancelJob(jobId);
      expect(job).toMatchObject({
        state: "finished",
        outcome: { status: "cancelled", reward: null, turns: 1, sampledTokens: 21 },
      });
      expect(at.sandboxes.live).toBe(0);
      expect(at.live.size).toBe(0);
    }
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("cancels while a turn is sampled, and while it is graded", async () => {
    const slow = { script: () => NO_FENCE, fault: (what: string) => (what === "complete" ? ("hang" as const) : null) };
    await using at = await aPipeline({ models: [slow], turnMs: 60_000 });
    const [sampled = ""] = await at.submit(A_WORD_TASK);
    await until(async () => (await at.store.job(sampled))?.state === "running");
    expect((await at.pipeline.cancelJob(sampled)).outcome).toMatchObject({ endReason: "cancelled", turns: 0 });

    await using graded = await aPipeline({ models: [{ script: () => NO_FENCE }] });
    const [evaluated = ""] = await graded.submit({ ...A_SHELL_TASK, eval: { command: ["sleep", "60"] } });
    await until(async () => (await graded.store.job(evaluated))?.state === "evaluating");
    expect((await graded.pipeline.cancelJob(evaluated)).outcome).toMatchObject({
      endReason: "cancelled",
      reward: null,
      turns: 1,
    });
  });

  test("leaves a finished job as it is when it is cancelled", async () => {
    await using at = await aPipeline({ models: [{ script: () => "ANSWER: 7" }] });
    const [jobId = ""] = await at.submit(A_WORD_TASK);
    const job = await at.finish(jobId);
    expect(await at.pipeline.cancelJob(jobId)).toEqual(job);
  });

  test("cancels a whole group in whatever states its jobs are", async () => {
    await using at = await aPipeline({ models: [{ script: () => bash("sleep 60") }], limits: { runWorkers: 1 } });
    const ids = await at.submit(A_SHELL_TASK, { n: 8 });
    await until(async () => (await at.store.counts()).running === 1);
    const job = await at.store.job(ids[0] ?? "");
    const group = await at.pipeline.cancelGroup(job?.groupId ?? "");
    expect(group.jobs.map((each) => each.outcome?.endReason)).toEqual(Array(8).fill("cancelled"));
    expect(at.live.size).toBe(0);
  });

  test("queues interrupted work again at a drain, without counting an attempt, and finishes it after the restart", async () => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.db");
    let ids: readonly string[] = [];
    {
      await using at = await aPipeline({ models: [{ script: () => bash("sleep 60") }], file });
      ids = await at.submit(A_SHELL_TASK, { n: 3, limits: { attemptsMax: 1 } });
      await until(async () => (await at.store.counts()).running === 3);
    }
    await using again = await aPipeline({ models: [byTurn([bash("echo done > out.txt")])], file });
    for (const id of ids) {
      const job = await again.finish(id);
      expect(job.outcome).toMatchObject({ status: "completed", reward: 1 });
      expect(job.attempts.map((attempt) => attempt.endReason)).toEqual(["server_restart", "answered"]);
    }
    const { rows } = await again.store.results({ after: 0, limit: 100, stream: null, groupId: null });
    expect(rows.map((row) => row.seq)).toEqual([1, 2, 3]);
  });

  test("takes jobs of a higher priority first", async () => {
    await using at = await aPipeline({
      models: [],
      limits: { initWorkers: 1, runWorkers: 1, evalWorkers: 1, readyMax: 1 },
    });
    const low = await at.submit({ ...A_WORD_TASK, id: "low" }, { n: 3 });
    const high = await at.submit({ ...A_WORD_TASK, id: "high" }, { n: 3, priority: 5 });
    expect(await at.store.claimQueued(["policy"])).toMatchObject({ job: { id: high[0] } });
    expect(low).toHaveLength(3);
  });

  test("refuses a submission with two bad tasks, naming both, and stores nothing of it", async () => {
    await using at = await aPipeline({ models: [] });
    const tasks = [
      A_WORD_TASK,
      { ...A_WORD_TASK, id: "b", answer: "many" },
      { ...A_WORD_TASK, id: "c", image: "debian" },
      A_WORD_TASK,
    ];
    const request = { model: "policy", sampling: {}, limits: {}, priority: 0, stream: null, labels: {} } as never;
    const refused = await rejectionOf(at.pipeline.submit({ tasks, n: 1, request, idempotency: null }));
    expect(refused).toMatchObject({
      reason: "task_invalid",
      faults: [{ path: "tasks.1.answer" }, { path: "tasks.2.image" }, { path: "tasks.3.id" }],
    });
    expect((await at.store.counts()).queued).toBe(0);
  });
});
