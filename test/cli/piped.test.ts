import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCli } from "../support/cli.ts";
import { A_WORD_TASK } from "../support/pipeline.ts";
import { aFolder } from "../support/store.ts";
import { until } from "../support/until.ts";

setDefaultTimeout(30_000);

const CLI = join(import.meta.dir, "../../src/cli.ts");
const folder = aFolder();
const tasks = join(folder.path, "tasks.jsonl");
let server: Bun.Server<undefined>;
let asked: string[] = [];

const job = (seq: number) => ({
  id: `job_${seq}`,
  group_id: "grp_1",
  task_id: "word",
  handler: "math",
  model: "policy",
  state: "finished",
  created_at: "",
  finished_at: "",
  outcome: null,
  timing: {},
  attempts: [],
  artifacts: [],
});

/** A log without end, and a submission whose jobs never finish. */
function answer(request: Request): Response {
  const url = new URL(request.url);
  asked.push(`${request.method} ${url.pathname}`);
  if (request.method === "POST") {
    return Response.json({ groups: [{ group_id: "grp_9", task_id: "word", job_ids: ["job_never"] }] });
  }
  if (url.pathname === "/v1/status") return new Response("<html>not rolloutd</html>");
  const after = Number(url.searchParams.get("after"));
  const results = Array.from({ length: 100 }, (_, at) => ({ seq: after + at + 1, job: job(after + at + 1) }));
  return Response.json({ results, next: after + 100, last: after + 1_000 });
}

beforeAll(() => {
  writeFileSync(tasks, JSON.stringify(A_WORD_TASK));
  server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: answer });
});
afterAll(async () => {
  await server.stop(true);
  folder[Symbol.dispose]();
});

const env = () => ({ ROLLOUTD_URL: `http://127.0.0.1:${server.port}` });

function start(command: string) {
  return Bun.spawn(["bash", "-c", command], {
    env: { ...process.env, ...env(), CLI: `${process.execPath} ${CLI}` },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
  });
}

describe("rolloutd in a pipe", () => {
  test("ends without a word when the reader of its endless output is gone", async () => {
    const child = start("set -o pipefail; $CLI results --follow | head -n 2; echo $?");
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    expect(await child.exited).toBe(0);
    expect(out).toMatch(/job_1 .*\n.*job_2 .*\n141\n$/);
    expect(err).toBe("");
  });
});

describe("rolloutd submit --watch", () => {
  test("says at Ctrl-C how to go on, and ends with 130", async () => {
    asked = [];
    const child = Bun.spawn([process.execPath, CLI, "submit", tasks, "--watch"], {
      env: { ...process.env, ...env() },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    await until(() => Promise.resolve(asked.filter((line) => line === "GET /v1/results").length > 3));
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
    const err = await new Response(child.stderr).text();
    expect(err).toMatch(/0 of 1 jobs were seen to finish.*rolloutd results --after \d+ --follow\n$/s);
    expect(err).not.toContain(" at ");
  });

  test("refuses an --out that cannot be written, before anything is submitted", async () => {
    asked = [];
    mkdirSync(join(folder.path, "a-folder"));
    for (const path of [join(folder.path, "a-folder"), join(folder.path, "none/results.jsonl")]) {
      const { code, err } = await runCli(["submit", tasks, "--out", path], env());
      expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(`--out ${path}: cannot be written`) });
    }
    expect(asked).toEqual([]);
    expect(existsSync(join(folder.path, "none"))).toBe(false);
  });
});

describe("arguments of rolloutd", () => {
  test.each([
    ["submit", "TASKS", "--n", "0"],
    ["submit", "TASKS", "--n", "1e3"],
    ["submit", "TASKS", "--limit", "-1"],
    ["submit", "TASKS", "--temperature", "warm"],
    ["submit", "TASKS", "--top-p", ""],
    ["submit", "TASKS", "--label", "=x"],
    ["results", "--after", "-1"],
    ["results", "--limit", "0"],
    ["results", "--after", "9".repeat(400)],
  ])("are refused in words: %s", async (...args) => {
    asked = [];
    const words = args.map((arg) => String(arg).replace("TASKS", tasks));
    const { code, err } = await runCli(words, env());
    expect(code).toBe(1);
    expect(err).toMatch(/^error: option .* is invalid\. expected /);
    expect(asked).toEqual([]);
  });

  test("that name another program's port are told what answered", async () => {
    const { code, err } = await runCli(["status"], env());
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining("answered in an unknown form") });
  });
});
