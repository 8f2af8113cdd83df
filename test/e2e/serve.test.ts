import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { runCli } from "../support/cli.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";
import { leftSince, NOTHING, type Residue, residue } from "../support/leaks.ts";
import { startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";

setDefaultTimeout(60_000);
const ROOT = join(import.meta.dir, "../..");
const NOBODY = 65_534;

let before: Residue;
beforeAll(() => {
  before = residue();
});
afterAll(async () => {
  expect(await leftSince(before)).toEqual(NOTHING);
});

describe("rolloutd serve", () => {
  test("drains and exits with 0 on SIGTERM, and leaves nothing in the write-ahead log", async () => {
    using folder = aFolder();
    const server = await startServerProcess(["--data", folder.path]);
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200);
    expect(await (await fetch(`${server.url}/readyz`)).json()).toMatchObject({ detail: "no backend is healthy" });
    expect(await server.end("SIGTERM")).toBe(0);
    expect(server.log()).toContain('"event":"server:stopped"');
    expect(Bun.file(join(folder.path, "rolloutd.db")).size).toBeGreaterThan(0);
    expect(Bun.file(join(folder.path, "rolloutd.db-wal")).size).toBe(0);
  });

  test("drains on SIGINT too", async () => {
    using folder = aFolder();
    const server = await startServerProcess(["--data", folder.path]);
    expect(await server.end("SIGINT")).toBe(0);
  });

  test("refuses a data folder that another server has, and a port that is taken", async () => {
    using folder = aFolder();
    using other = aFolder();
    await using server = await startServerProcess(["--data", folder.path]);
    const locked = await runCli(["serve", "--port", "0", "--data", folder.path]);
    expect(locked.code).toBe(2);
    expect(locked.err).toContain("another server");
    const taken = await runCli(["serve", "--port", new URL(server.url).port, "--data", other.path]);
    expect(taken.code).toBe(2);
    expect(taken.err).toContain("is taken by another program");
  });

  test.each([
    [["--port", "99999"], "--port"],
    [["--port", "http"], "--port"],
    [["--run-workers", "0"], "--run-workers"],
    [["--log-level", "loud"], "--log-level"],
    [["--host", "0.0.0.0"], "--token-file"],
    [["--eval-workers", "60", "--sandboxes-max", "100"], "--sandboxes-max"],
    [["--config", "/nonexistent.toml"], "/nonexistent.toml"],
    [["--token-file", "/nonexistent"], "/nonexistent"],
    [["--bwrap", "/bin/true"], "bubblewrap"],
    [["--backend", "not a url"], "not a url"],
    [["--data", "/proc/nothing"], "/proc/nothing"],
    [["--sandbox-uid", "0"], "--sandbox-uid"],
    [["--limits-max", "memory=5"], "--limits-max: memory is no limit; accepted: turns_max, "],
    [["--limits-max", "memory_bytes=2G"], "--limits-max: memory_bytes: accepted: a whole number"],
    [["--network-private", "nowhere"], "--network-private nowhere"],
    [["--no-such-flag"], "--no-such-flag"],
  ])("does not start with %p and says why", async (flags, named) => {
    using folder = aFolder();
    const { code, err } = await runCli(["serve", "--port", "0", "--data", folder.path, ...flags]);
    expect({ code: code > 0, err }).toMatchObject({ code: true, err: expect.stringContaining(named) });
    expect(err).not.toContain("    at "); // a reason, not a stack
  });

  test.each([
    ["[limits_max]\nmemory = 5\n", "limits_max in FILE: memory is no limit; accepted: turns_max, "],
    [
      '[limits_max]\nmemory_bytes = "2G"\n',
      "limits_max in FILE: memory_bytes: accepted: a whole number of at least 1, sizes in bytes",
    ],
    ['network_private = ["nowhere"]\n', "network_private in FILE nowhere: is no network"],
    ["prot = 1\n", "prot in FILE is not a setting; known are host, "],
    ["# a comment\nport = 0\n\nhost = = 2\nready_max = 2\n", "--config FILE is not TOML: line 4: "],
  ])("does not start with the file %j and says where in it is what", async (text, said) => {
    using folder = aFolder();
    const file = join(folder.path, "rolloutd.toml");
    writeFileSync(file, text);
    const { code, err } = await runCli(["serve", "--port", "0", "--data", folder.path, "--config", file]);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(said.replace("FILE", file)) });
  });

  test("does not start when its sandboxes do not confine, and says what does not hold", async () => {
    using folder = aFolder();
    const fake = join(folder.path, "bwrap");
    const script =
      '[ "$1" = --version ] && echo "bubblewrap 0.12.0" && exit\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n';
    writeFileSync(fake, `#!/bin/sh\n${script}`, { mode: 0o755 });
    chmodSync(folder.path, 0o755);
    const { code, err } = await runCli(["serve", "--port", "0", "--data", join(folder.path, "data"), "--bwrap", fake]);
    expect(code).toBe(2);
    expect(err).toContain("sandboxes do not confine on this machine");
    expect(err).not.toContain("server:listening");
  });

  test("takes settings from a TOML file, the environment and flags, in rising precedence", async () => {
    using folder = aFolder();
    const config = join(folder.path, "rolloutd.toml");
    writeFileSync(config, `init_workers = 1\nrun_workers = 1\neval_workers = 1\n`);
    const data = join(folder.path, "data");
    const flags = ["--config", config, "--eval-workers", "3", "--data", data];
    await using server = await startServerProcess(flags, { ROLLOUTD_RUN_WORKERS: "2", ROLLOUTD_EVAL_WORKERS: "2" });
    const status = (await (await fetch(`${server.url}/v1/status`)).json()) as {
      pools: Record<string, { slots: number }>;
    };
    const slots = Object.fromEntries(Object.entries(status.pools).map(([name, pool]) => [name, pool.slots]));
    expect(slots).toEqual({ init: 1, run: 2, eval: 3 });
  });

  test("asks for a token where it is told to, and refuses a web page's Origin and a foreign Host always", async () => {
    using folder = aFolder();
    const tokens = join(folder.path, "tokens");
    writeFileSync(tokens, "correct-horse-battery\n");
    await using server = await startServerProcess(["--data", join(folder.path, "data"), "--token-file", tokens]);
    const status = async (headers: Record<string, string>) =>
      (await fetch(`${server.url}/v1/status`, { headers })).status;
    const authorization = "Bearer correct-horse-battery";
    expect(await status({})).toBe(401);
    expect(await status({ authorization: "Bearer wrong-horse-battery-staple" })).toBe(403);
    expect(await status({ authorization })).toBe(200);
    expect(await status({ authorization, origin: "http://evil.example" })).toBe(403);
    expect(await status({ authorization, host: "evil.example" })).toBe(403);
  });

  test("tells a newcomer what it takes", async () => {
    const { out, code } = await runCli(["serve", "--help"]);
    expect(code).toBe(0);
    for (const part of ["--backend <value>", "default: 8006", "needs --token-file", "ROLLOUTD_SANDBOX_UID"]) {
      expect(out.replace(/\s+/g, " ")).toContain(part);
    }
  });
});

describe("examples/curl-tour.sh", () => {
  test("does by curl alone, as an ordinary user, what a trainer does", async () => {
    await using model = startFakeVllm({
      model: "policy",
      script: (prompt) => (prompt.includes("million") ? "1 ".repeat(900) : "ANSWER: 7"),
    });
    using folder = aFolder();
    await using server = await startServerProcess(["--data", folder.path]);
    const asNobody =
      process.getuid?.() === 0 ? ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"] : [];
    using scripts = aFolder();
    const script = join(scripts.path, "curl-tour.sh");
    cpSync(join(ROOT, "examples/curl-tour.sh"), script);
    const child = Bun.spawn([...asNobody, "sh", "-c", readFileSync(script, "utf8"), "tour", server.url, model.url], {
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("the same jobs both times");
    const documents = out
      .split("\n")
      .filter((line) => line.startsWith("{"))
      .map((line) => JSON.parse(line));
    const [backend, submitted, job, trajectory, cancelled, consumer, results] = documents;
    expect(backend).toMatchObject({ state: "healthy", model: "policy" });
    expect(submitted.groups[0].job_ids).toHaveLength(4);
    expect(job).toMatchObject({ state: "finished", outcome: { reward: 1, ledger: "exact" } });
    const [branch] = trajectory.branches;
    expect(branch.loss_mask.filter(Boolean)).toHaveLength(job.outcome.sampled_tokens);
    expect(cancelled).toMatchObject({ state: "finished" });
    expect(consumer).toMatchObject({ name: "tour", committed: 1 });
    expect(results.results[0].seq).toBe(2);
  });
});
