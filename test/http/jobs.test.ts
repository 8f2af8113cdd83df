import { describe, expect, test } from "bun:test";
import { aBranch, aRunEnd, aToolResult, aTurn } from "../support/jobs.ts";
import { anApp } from "../support/server.ts";
import { bringTo, submitOne } from "../support/store.ts";

const task = { id: "sums/1", handler: "math", prompt: "1+1?", answer: "2", extra: { kept: true } };

describe("POST /v1/jobs", () => {
  test("makes a group of n jobs with the given settings and the defaults", async () => {
    await using opened = await anApp();
    const body = { task, n: 2, sampling: { top_k: 5, stop: ["\n"] }, limits: { turns_max: 3 }, labels: { run: "a" } };
    const made = await opened.ask("POST", "/v1/jobs", body);
    expect(made).toMatchObject({ status: 202, body: { groups: [{ task_id: "sums/1" }] } });
    const [group] = made.body.groups as { group_id: string; job_ids: string[] }[];
    expect(group?.job_ids).toHaveLength(2);
    expect(await opened.store.job(group?.job_ids[0] ?? "")).toMatchObject({
      model: "policy",
      priority: 0,
      stream: null,
      labels: { run: "a" },
      sampling: { temperature: 1, topP: 1, topK: 5, minP: 0, maxTokens: 1024, seed: null, stop: ["\n"] },
      limits: { turnsMax: 3, tokensMax: 32_768, attemptsMax: 3 },
    });
    expect(JSON.parse((await opened.store.group(group?.group_id ?? ""))?.taskJson ?? "")).toEqual(task);
  });

  test("makes a group of each of several tasks", async () => {
    await using opened = await anApp();
    const made = await opened.ask("POST", "/v1/jobs", { tasks: [task, { ...task, id: "sums/2" }], n: 3 });
    expect(
      (made.body.groups as { task_id: string; job_ids: string[] }[]).map((group) => [
        group.task_id,
        group.job_ids.length,
      ]),
    ).toEqual([
      ["sums/1", 3],
      ["sums/2", 3],
    ]);
  });

  test("gives the same ids with 200 for a known key, and 409 when the body differs in a byte", async () => {
    await using opened = await anApp();
    const send = (body: string) =>
      opened.app.request("/v1/jobs", {
        method: "POST",
        headers: { "content-type": "application/json; charset=utf-8", "idempotency-key": "k" },
        body,
      });
    const body = JSON.stringify({ task });
    const first = await send(body);
    const second = await send(body);
    expect([first.status, second.status]).toEqual([202, 200]);
    expect(await second.json()).toEqual(await first.json());
    const other = await send(`${body} `);
    expect([other.status, (await other.json()).reason]).toEqual([409, "idempotency_conflict"]);
  });
});

describe("GET /v1/jobs/{id}", () => {
  test("shows a finished job in the shape of the contract", async () => {
    await using opened = await anApp();
    await submitOne(opened.store);
    const { jobId, attemptId } = await bringTo(opened.store, "finished");
    const { status, body } = await opened.ask("GET", `/v1/jobs/${jobId}?wait_s=30`);
    const at = "2023-11-14T22:13:20.000Z";
    expect({ status, body }).toEqual({
      status: 200,
      body: {
        id: jobId,
        group_id: expect.stringMatching(/^grp_/),
        task_id: "sums/1",
        handler: "math",
        sample: 0,
        model: "policy",
        stream: null,
        token_exact: true,
        labels: {},
        state: "finished",
        priority: 0,
        created_at: at,
        finished_at: at,
        outcome: {
          status: "completed",
          end_reason: "answered",
          reward: 1,
          rewards: { equivalent: 1 },
          trainable: true,
          grading: "separate",
          error: null,
          turns: 1,
          prompt_tokens: 3,
          sampled_tokens: 2,
          policy_version_min: "7",
          policy_version_max: "7",
          ledger: "exact",
        },
        timing: {
          queued_ms: 0,
          init_ms: 15,
          ready_ms: 0,
          run_ms: 100,
          llm_ms: 80,
          tool_ms: 10,
          awaiting_eval_ms: 0,
          eval_ms: 40,
          total_ms: 0,
        },
        attempts: [
          {
            id: attemptId,
            started_at: at,
            ended_at: at,
            stage: "eval",
            end_reason: "answered",
            backend_ids: ["bck_1"],
            error: null,
          },
        ],
        artifacts: [],
      },
    });
  });

  test("shows no outcome before the job is finished", async () => {
    await using opened = await anApp();
    await submitOne(opened.store);
    const { jobId } = await bringTo(opened.store, "evaluating");
    expect((await opened.ask("GET", `/v1/jobs/${jobId}`)).body).toMatchObject({
      state: "evaluating",
      outcome: null,
      finished_at: null,
    });
  });
});

describe("GET /v1/jobs", () => {
  test("lists by page and by label", async () => {
    await using opened = await anApp();
    const { ask } = opened;
    await ask("POST", "/v1/jobs", { task, n: 3, labels: { run: "a" } });
    await ask("POST", "/v1/jobs", { task, n: 1, labels: { run: "b" } });
    const ids = (body: Record<string, unknown>) => (body.jobs as { id: string }[]).map((job) => job.id);
    const first = await ask("GET", "/v1/jobs?label.run=a&limit=2");
    expect(ids(first.body)).toHaveLength(2);
    const second = await ask("GET", `/v1/jobs?label.run=a&limit=2&after=${String(first.body.next)}`);
    expect(ids(second.body)).toHaveLength(1);
    expect(second.body.next).toBeNull();
    expect(ids((await ask("GET", "/v1/jobs?label.run=b&state=queued&handler=math")).body)).toHaveLength(1);
    expect(ids((await ask("GET", "/v1/jobs?state=finished")).body)).toEqual([]);
  });
});

describe("POST /v1/jobs/{id}/cancel", () => {
  test("answers the finished job, and again the same", async () => {
    await using opened = await anApp();
    const [id] = await submitOne(opened.store);
    const first = await opened.ask("POST", `/v1/jobs/${id}/cancel`);
    expect(first).toMatchObject({
      status: 200,
      body: { state: "finished", outcome: { end_reason: "cancelled", reward: null } },
    });
    expect((await opened.ask("POST", `/v1/jobs/${id}/cancel`)).body).toEqual(first.body);
  });
});

describe("GET /v1/jobs/{id}/artifacts/{name}", () => {
  test("gives the bytes as a download", async () => {
    await using opened = await anApp();
    await submitOne(opened.store);
    const at = await bringTo(opened.store, "running");
    const bytes = new TextEncoder().encode("<script>");
    await opened.store.endRun(aRunEnd(at, { carry: { answer: null, artifacts: [{ name: "out/a b.html", bytes }] } }));
    const response = await opened.app.request(`/v1/jobs/${at.jobId}/artifacts/${encodeURIComponent("out/a b.html")}`);
    expect([response.status, await response.text()]).toEqual([200, "<script>"]);
    expect(response.headers.get("content-type")).toBe("application/octet-stream");
    expect(response.headers.get("content-disposition")).toBe("attachment");
    expect((await opened.ask("GET", `/v1/jobs/${at.jobId}/artifacts/none`)).body.reason).toBe("artifact_unknown");
  });
});

describe("GET /v1/groups/{id}", () => {
  test("shows jobs, rewards and state, and cancels what is left", async () => {
    await using opened = await anApp();
    const { ask, store } = opened;
    await submitOne(store, { n: 2 });
    const { jobId } = await bringTo(store, "finished");
    const groupId = (await store.job(jobId))?.groupId ?? "";
    const group = await ask("GET", `/v1/groups/${groupId}`);
    expect(group.body).toMatchObject({ id: groupId, task_id: "sums/1", state: "running", rewards: [1, null] });
    const cancelled = await ask("POST", `/v1/groups/${groupId}/cancel`);
    expect(cancelled.body).toMatchObject({ state: "finished", jobs: [{ id: jobId }, { state: "finished" }] });
  });
});

describe("GET /v1/jobs/{id}/trajectory", () => {
  test("gives ids, masks and log-probs exactly, in the shape of the contract", async () => {
    await using opened = await anApp();
    await submitOne(opened.store);
    const { jobId } = await bringTo(opened.store, "finished");
    const { status, body } = await opened.ask("GET", `/v1/jobs/${jobId}/trajectory?format=native`);
    expect(status).toBe(200);
    const branch = aBranch();
    const turn = aTurn();
    expect(body).toMatchObject({
      schema_version: 1,
      id: expect.stringMatching(/^trj_/),
      job_id: jobId,
      task_id: "sums/1",
      model: "policy",
      tokenizer_hash: "tok",
      template_hash: "tpl",
      renderer: "local",
      logprobs_mode: "processed",
      hash: "00",
      outcome: { reward: 1 },
      messages: [
        { role: "user", content: "1+1?" },
        { role: "assistant", content: "2" },
      ],
      tools: [],
      branches: [
        {
          id: 0,
          parent: null,
          shared_tokens: 0,
          prompt_tokens: 3,
          token_ids: [...branch.tokenIds],
          loss_mask: [...branch.lossMask],
          logprobs: [...branch.logprobs],
          temperatures: [...branch.temperatures],
          is_content: [...branch.isContent],
          message_index: [...branch.messageIndex],
          versions: [{ version: "7", start: 3, end: 5 }],
          turns: [
            {
              index: 0,
              start: 3,
              end: 5,
              backend_id: turn.backendId,
              sampling: { temperature: 1, top_p: 1, top_k: -1, min_p: 0, max_tokens: 1024, seed: null, stop: [] },
              finish_reason: "stop",
              stop_reason: null,
              drift: "clean",
              parse: "ok",
              hash: "00",
              tool_results: [],
            },
          ],
        },
      ],
      evaluation: { reward: 1, rewards: { equivalent: 1 }, report: { expected: "2" }, log: "2 = 2" },
    });
  });

  test("is 409 of an unfinished job, unless what there is so far is asked for", async () => {
    await using opened = await anApp();
    const { ask, store } = opened;
    await submitOne(store);
    const at = await bringTo(store, "running");
    await store.saveTurn({ ...at, record: aTurn() });
    await store.saveToolResults({ ...at, turn: 0, results: [aToolResult()], files: [] });
    const early = await ask("GET", `/v1/jobs/${at.jobId}/trajectory`);
    expect(early).toMatchObject({ status: 409, body: { reason: "job_unfinished" } });
    const partial = await ask("GET", `/v1/jobs/${at.jobId}/trajectory?partial=true`);
    expect(partial).toMatchObject({
      status: 200,
      body: {
        outcome: null,
        tokenizer_hash: null,
        branches: [
          {
            token_ids: [11, 12, 13, 21, 22],
            loss_mask: [0, 0, 0, 1, 1],
            turns: [
              {
                tool_results: [
                  {
                    call_id: "call_1",
                    output: "2\n",
                    exit_code: 0,
                    signal: null,
                    timed_out: false,
                    artifacts: [],
                    ms: 12,
                  },
                ],
              },
            ],
          },
        ],
        messages: [
          { role: "user", content: "3 + 4?" },
          { role: "assistant", content: "2" },
        ],
      },
    });
  });

  test("is 409 of a job that was cancelled before it began", async () => {
    await using opened = await anApp();
    const [id] = await submitOne(opened.store);
    await opened.store.requestCancel(String(id));
    expect((await opened.ask("GET", `/v1/jobs/${id}/trajectory`)).body).toMatchObject({
      status: 409,
      detail: expect.stringContaining("was never begun"),
    });
  });
});
