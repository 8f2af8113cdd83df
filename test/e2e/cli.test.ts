import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type NumberArray, packArrays, unpackArrays } from "../../src/store/codec.ts";
import { runCli } from "../support/cli.ts";
import type { FakeServer } from "../support/fake-model.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";
import { A_SHELL_TASK, A_WORD_TASK, bash } from "../support/pipeline.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";

setDefaultTimeout(60_000);

const folder = aFolder();
const data = join(folder.path, "data");
const tasks = join(folder.path, "tasks.jsonl");
const results = join(folder.path, "results.jsonl");
let model: FakeServer;
let server: ServerProcess;
/** What the commands said that all tests build on, and a job of the shell task. */
let added: Awaited<ReturnType<typeof cli>>;
let submitted: Awaited<ReturnType<typeof cli>>;
let log: Awaited<ReturnType<typeof cli>>;
let job = "";

/** The shell task writes its file in two turns; the word problem is right every other time. */
let words = 0;
const script = (prompt: string) => {
  if (!prompt.includes("out.txt")) return words++ % 2 === 0 ? "ANSWER: 7" : "ANSWER: 8";
  return prompt.split("<|start|>assistant\n").length === 2 ? bash("echo done > out.txt") : "Written.";
};

beforeAll(async () => {
  writeFileSync(tasks, `${JSON.stringify(A_WORD_TASK)}\n${JSON.stringify(A_SHELL_TASK)}\n`);
  model = startFakeVllm({ model: "small", script });
  server = await startServerProcess(["--data", data]);
  added = await cli("backend", "add", model.url);
  submitted = await cli("submit", tasks, "--n", "4", "--watch", "--out", results);
  log = await cli("results");
  job = /(job_\S+)\s+shell/.exec(log.out)?.[1] ?? "";
});
afterAll(async () => {
  expect(await server.end("SIGTERM")).toBe(0);
  await model[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const cli = (...args: string[]) => runCli(args, { ROLLOUTD_URL: server.url });

describe("the command line", () => {
  test("registers, lists and shows a backend", async () => {
    expect({ code: added.code, out: added.out }).toMatchObject({ code: 0, out: expect.stringContaining("healthy") });
    expect((await cli("backend", "ls")).out).toMatch(/bck_\S+\s+healthy\s+small\s+http/);
    const id = /bck_\S+/.exec(added.out)?.[0] ?? "";
    expect((await cli("backend", "show", id)).out).toMatch(/engine\s+vllm/);
    expect(await cli("backend", "show", "bck_none")).toMatchObject({
      code: 1,
      err: expect.stringContaining("backend_unknown"),
    });
  });

  test("submits a file for the one registered model, follows it and writes the trajectories", () => {
    const { out, err, code } = submitted;
    expect({ code, err }).toMatchObject({ code: 0 });
    expect(err).toContain("8/8 finished");
    expect(out).toMatch(/shell\s+1 1 1 1\s+8\s/);
    expect(out).toMatch(/word\s+[01] [01] [01] [01]\s+4\s/);
    expect(out).toContain("8 jobs, mean reward 0.75, without reward: none");
  });

  test("shows a job's turns, tool calls, trained tokens, log-probs and timings", async () => {
    expect(log.out).toContain("next: --after 8");
    const { out } = await cli("show", job);
    for (const part of [
      "reward 1",
      "ledger exact",
      "-> bash",
      "echo done > out.txt",
      "<- bash, exit code 0",
      "log-prob mean",
      "llm ",
    ]) {
      expect(out).toContain(part);
    }
    const tokens = (await cli("show", job, "--tokens")).out;
    expect(tokens).toMatch(/position\s+id\s+mask\s+log-prob\s+message\s+version/);
  });

  test("goes on from a place in the results log", async () => {
    const { out } = await cli("results", "--after", "6", "--json");
    expect(
      out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).seq),
    ).toEqual([7, 8]);
  });

  test("cancels a job that is finished without changing it, and names an unknown one", async () => {
    expect((await cli("cancel", job)).out).toContain("completed: answered");
    expect(await cli("cancel", "job_none")).toMatchObject({ code: 1, err: expect.stringContaining("job_unknown") });
    expect(await cli("cancel", "nonsense")).toMatchObject({ code: 2 });
  });

  test("says how many jobs there are and what version it is", async () => {
    const status = await cli("status");
    expect(status.out).toMatch(/finished\s+8/);
    expect(status.out).toMatch(/bck_\S+\s+healthy\s+small\s+http/);
    expect((await cli("--version")).out).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect((await cli("version")).out).toMatch(/^rolloutd \d+\.\d+\.\d+/);
  });

  test("finds every ledger exact, in the file and in the database of the running server", async () => {
    expect(await cli("verify", results, "--quiet")).toMatchObject({
      code: 0,
      out: expect.stringContaining("8 exact, 0 forked, 0 rejected"),
    });
    expect(await cli("verify", data, "--quiet")).toMatchObject({
      code: 0,
      out: expect.stringContaining("8 exact, 0 forked, 0 rejected"),
    });
  });

  test("says which server does not answer", async () => {
    const { code, err } = await runCli(["status"], { ROLLOUTD_URL: "http://127.0.0.1:9" });
    expect({ code, err }).toMatchObject({
      code: 1,
      err: expect.stringContaining("no server answers at http://127.0.0.1:9"),
    });
  });
});

describe("rolloutd verify", () => {
  /** A copy of the database in which one array of the shell job's branch or of its second turn was changed. */
  async function tampered(change: (database: Database) => void): Promise<string> {
    const copy = join(folder.path, `copy-${Bun.hash(change.toString())}.db`);
    for (const suffix of ["", "-wal"]) cpSync(join(data, `rolloutd.db${suffix}`), `${copy}${suffix}`);
    using database = new Database(copy, { strict: true });
    change(database);
    return copy;
  }

  /** Branch arrays in the order of the codec: ids, mask, log-probs, ... */
  function change(
    database: Database,
    { table, array }: { table: "branches" | "turns"; array: number },
    edit: (values: NumberArray) => void,
  ): void {
    const attempt =
      database.query<{ attempt_id: string }, [string]>("SELECT attempt_id FROM jobs WHERE id = ?").get(job)
        ?.attempt_id ?? "";
    const number = table === "branches" ? 0 : 1;
    const row = database
      .query<{ arrays: Uint8Array }, [string, number]>(
        `SELECT arrays FROM ${table} WHERE attempt_id = ? AND number = ?`,
      )
      .get(attempt, number);
    const arrays = unpackArrays(row?.arrays ?? new Uint8Array());
    const edited = arrays[array];
    if (edited === undefined) throw new Error("no such array");
    edit(edited);
    database
      .query(`UPDATE ${table} SET arrays = ? WHERE attempt_id = ? AND number = ?`)
      .run(packArrays(arrays), attempt, number);
  }

  const lastOf = (values: NumberArray) => values.length - 1;

  test.each([
    [
      "id of a branch",
      "ids",
      { table: "branches", array: 0 },
      (values: NumberArray) => {
        values[lastOf(values)] = 7;
      },
    ],
    [
      "mask bit of a branch",
      "mask",
      { table: "branches", array: 1 },
      (values: NumberArray) => {
        values[lastOf(values)] = 0;
      },
    ],
    [
      "log-prob of a branch",
      "logprobs",
      { table: "branches", array: 2 },
      (values: NumberArray) => {
        values[lastOf(values)] = -0.125;
      },
    ],
    [
      "id of a turn",
      "ids",
      { table: "turns", array: 3 },
      (values: NumberArray) => {
        values[lastOf(values)] = 7;
      },
    ],
    [
      "log-prob of a turn",
      "logprobs",
      { table: "turns", array: 4 },
      (values: NumberArray) => {
        values[lastOf(values)] = -0.125;
      },
    ],
  ] as const)("names job, turn and position of one changed %s", async (_what, field, at, edit) => {
    const copy = await tampered((database) => change(database, at, edit));
    const { out, code } = await cli("verify", copy, "--quiet");
    expect(code).toBe(1);
    expect(out).toMatch(new RegExp(`^${job}  rejected\\n  ${field} at branch 0, turn 1, position \\d+: `));
    expect(out).toContain("7 exact, 0 forked, 1 rejected");
  });

  test("names turn and position of one changed version", async () => {
    const copy = await tampered((database) =>
      database
        .query(
          `UPDATE branches SET versions = replace(versions, '"0"', '"1"') WHERE attempt_id = (SELECT attempt_id FROM jobs WHERE id = ?)`,
        )
        .run(job),
    );
    const { out, code } = await cli("verify", copy, "--quiet");
    expect({ code, out }).toMatchObject({
      code: 1,
      out: expect.stringMatching(/versions at branch 0, turn 0, position \d+/),
    });
  });

  test("reports a trajectory that no longer decodes, and goes on with the others", async () => {
    const copy = await tampered((database) =>
      database
        .query("UPDATE turns SET arrays = x'00' WHERE attempt_id = (SELECT attempt_id FROM jobs WHERE id = ?)")
        .run(job),
    );
    expect(await cli("verify", copy, "--quiet")).toMatchObject({
      code: 1,
      out: expect.stringContaining("7 exact, 0 forked, 1 rejected"),
    });
  });

  test.each([
    ["id", (line: string) => line.replace(/("token_ids":\[\d+,)\d+/, "$17")],
    ["mask bit", (line: string) => line.replace(/("loss_mask":\[)0/, "$11")],
    ["log-prob", (line: string) => line.replace(/-0\.\d+/, "-0.001")],
    ["version", (line: string) => line.replace('"version":"0"', '"version":"9"')],
  ])("rejects an exported trajectory with one changed %s and names the turn", async (what, edit) => {
    const file = join(folder.path, `tampered-${what}.jsonl`.replace(" ", "-"));
    const [first = "", ...rest] = (await Bun.file(results).text()).trim().split("\n");
    expect(edit(first)).not.toBe(first);
    writeFileSync(file, [edit(first), ...rest].join("\n"));
    const { out, code } = await cli("verify", file, "--quiet");
    expect({ code, out }).toMatchObject({ code: 1, out: expect.stringMatching(/turn 0/) });
  });
});
