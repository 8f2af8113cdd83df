import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCli } from "../support/cli.ts";
import { A_WORD_TASK } from "../support/pipeline.ts";
import { type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";

setDefaultTimeout(60_000);

const folder = aFolder();
const tasks = join(folder.path, "tasks.jsonl");
let server: ServerProcess;

beforeAll(async () => {
  writeFileSync(tasks, `${JSON.stringify(A_WORD_TASK)}\n`);
  server = await startServerProcess(["--data", join(folder.path, "data")]);
});
afterAll(async () => {
  expect(await server.end("SIGTERM")).toBe(0);
  folder[Symbol.dispose]();
});

const cli = (...args: string[]) => runCli(args, { ROLLOUTD_URL: server.url });

describe("rolloutd submit", () => {
  const GOOD = JSON.stringify(A_WORD_TASK);
  test.each([
    ["an empty file", "", "is empty"],
    [
      "broken JSON on line 7",
      `${Array(6)
        .fill(0)
        .map((_, at) => JSON.stringify({ ...A_WORD_TASK, id: `t${at}` }))
        .join("\n")}\n{"id": \n`,
      ":7: is not JSON",
    ],
    ["a row without a known form", `${GOOD}\n{"text": "x"}\n`, ":2: handler is missing"],
    ["a GSM8K row without its answer", `{"question": "q"}\n`, ":1: answer is missing for a GSM8K row"],
    [
      "an unknown handler",
      `{"id": "a", "handler": "mathh", "prompt": "p"}\n`,
      ":1: handler is unknown; accepted: math, code, command",
    ],
    ["a wrong type", `{"id": "a", "handler": "math", "prompt": 7, "answer": "1"}\n`, ":1: prompt"],
    ["the same id twice", `${GOOD}\n${GOOD}\n`, ":2: id word stands in line 1 too"],
    ["a bare number", "5\n", ":1: the row is not an object"],
  ])("refuses %s by line and field, and submits nothing", async (_what, text, named) => {
    const file = join(folder.path, "bad.jsonl");
    writeFileSync(file, text);
    const { code, err, out } = await cli("submit", file);
    expect({ code, out, err }).toEqual({ code: 2, out: "", err: expect.stringContaining(named) });
    expect((await cli("status")).out).toMatch(/queued\s+0/);
  });

  test("refuses text that is not UTF-8, and a file that is not there", async () => {
    const file = join(folder.path, "latin1.jsonl");
    writeFileSync(file, new Uint8Array([0x7b, 0xff, 0xfe, 0x7d]));
    expect(await cli("submit", file)).toMatchObject({ code: 2, err: expect.stringContaining("is not UTF-8") });
    expect(await cli("submit", "/nonexistent.jsonl")).toMatchObject({
      code: 2,
      err: expect.stringContaining("no such file"),
    });
    expect((await cli("submit", tasks, "--n", "many")).err).toContain("whole number");
  });

  test("says when no backend serves the model, and names a job that waits", async () => {
    const { out, err, code } = await cli("submit", tasks, "--limit", "1", "--model", "absent");
    expect({ code, err }).toEqual({ code: 0, err: expect.stringContaining("no healthy backend serves absent") });
    const waiting = /job_\S+/.exec(out)?.[0] ?? "";
    expect((await cli("cancel", waiting)).out).toContain("cancelled");
  });
});

describe("rolloutd status", () => {
  test("tells of sandboxes that are started but wait for a job, and whom a memory limit binds", async () => {
    const { out } = await cli("status");
    expect(out).toMatch(/sandboxes\s+0 of 96 live, \d+ warm for the next jobs/);
    expect(out).toMatch(/memory limit\s+of each (sandbox\n|process alone: no cgroups)/);
  });
});

describe("rolloutd", () => {
  test.each([
    [["run", "--help"], "unknown command 'run'"],
    [["image", "nope", "-h"], "unknown command 'nope'"],
    [["help", "nope"], "unknown command 'nope'"],
  ])("says of %p what is wrong rather than how other commands are used", async (args, said) => {
    const { code, out, err } = await cli(...args);
    expect({ code, out, err }).toEqual({ code: 1, out: "", err: expect.stringContaining(said) });
  });

  test("gives the help of commands that there are", async () => {
    expect(await cli("image", "build", "--help")).toMatchObject({ code: 0, out: expect.stringContaining("--rebuild") });
    expect(await cli("help", "serve")).toMatchObject({ code: 0, out: expect.stringContaining("--run-workers") });
  });
});

describe("rolloutd task check", () => {
  test("passes the reference and not the idle agent, and says of each task what failed", async () => {
    const file = join(folder.path, "check.jsonl");
    const code = { id: "c", handler: "code", prompt: "p", tests: [{ kind: "assert", code: "assert f(2) == 4" }] };
    const solution = (text: string) => ({ reference: { files: { "/workspace/solution.py": text } } });
    writeFileSync(
      file,
      [
        { ...code, id: "right", ...solution("def f(x): return x * 2\n") },
        { ...code, id: "wrong-reference", ...solution("def f(x): return x\n") },
        { ...code, id: "no-module", ...solution("import nosuch\ndef f(x): return x * 2\n") },
        { ...code, id: "no-reference" },
        { ...code, id: "no-image", image: "python" },
        { ...code, id: "bad-reference", reference: { file: {} } },
        { id: "gift", handler: "command", prompt: "p", eval: { command: ["echo", "1"] }, reference: {} },
      ]
        .map((task) => JSON.stringify(task))
        .join("\n"),
    );
    const { out, code: exit } = await cli("task", "check", file, "--json", "--images", join(folder.path, "images"));
    expect(exit).toBe(1);
    expect(
      out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toMatchObject([
      { task_id: "right", ok: true, empty_reward: 0, reference_reward: 1 },
      {
        task_id: "wrong-reference",
        ok: false,
        problem: expect.stringContaining("the reference gets 0: assertion failed"),
      },
      { task_id: "no-module", ok: false, problem: expect.stringContaining("No module named 'nosuch'") },
      { task_id: "no-reference", ok: false, problem: expect.stringContaining("no reference solution") },
      {
        task_id: "no-image",
        ok: false,
        problem: expect.stringMatching(/^image_unknown: no image .*`rolloutd image build python` makes it/),
      },
      { task_id: "bad-reference", ok: false, problem: expect.stringContaining("its reference is not of the form") },
      { task_id: "gift", ok: false, problem: expect.stringContaining("does nothing gets full marks") },
    ]);
    expect((await cli("task", "check", join(import.meta.dir, "../../examples/demo-tasks.jsonl"))).out).toContain(
      "4 ok, 0 failed",
    );
  });
});
