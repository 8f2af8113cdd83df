import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import type { Carry } from "../../src/job/job.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { silentLog } from "../../src/log.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { createRegistry } from "../../src/tasks/registry.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";
import { rejectionOf } from "../support/store.ts";

let sandboxes: SandboxHost;
beforeAll(async () => {
  sandboxes = await testSandboxHost();
});
afterAll(async () => {
  expect(sandboxes.live).toBe(0);
  await sandboxes.close();
});

/** Grades a carry by a grader script. */
function grade(script: string, carry: Partial<Carry> = {}) {
  const { task, handler } = createRegistry(systemClock).parse({
    id: "t",
    handler: "command",
    prompt: "p",
    eval: { command: ["sh", "/grader/score.sh"], files: [{ path: "/grader/score.sh", text: script }] },
  });
  return handler.evaluate({
    task,
    carry: { answer: null, artifacts: [], ...carry },
    limits: DEFAULT_LIMITS,
    signal: new AbortController().signal,
    log: silentLog,
    sandboxes,
  });
}

const bytes = (text: string) => new TextEncoder().encode(text);

describe("command handler", () => {
  test("takes the last line as the score, a number or an object", async () => {
    expect(await grade("echo looking; echo 0.25")).toMatchObject({
      reward: 0.25,
      rewards: {},
      grading: "shared_process",
    });
    const scored = await grade(`echo '{"reward": 1, "rewards": {"style": 0.5}, "note": "x"}'`);
    expect(scored).toMatchObject({ reward: 1, rewards: { style: 0.5 }, report: { note: "x" } });
  });

  test("shows the grader the answer and the carried files at the paths they had", async () => {
    const script = "cat /grader/answer.txt /workspace/a.txt /var/b.txt >&2; echo 1";
    const artifacts = [
      { name: "a.txt", bytes: bytes("from a\n") },
      { name: "/var/b.txt", bytes: bytes("from b\n") },
    ];
    expect((await grade(script, { answer: "said\n", artifacts })).log).toBe("1\nsaid\nfrom a\nfrom b\n");
  });

  test("lets no carried file replace the grader", async () => {
    const artifacts = [{ name: "/grader/score.sh", bytes: bytes("echo 1") }];
    expect((await grade("echo 0", { artifacts })).reward).toBe(0);
  });

  test.each([
    ["exits with an error", "echo 1; exit 3", "exit code 3"],
    ["prints no number", "echo well done", 'last line is \\"well done\\"'],
    ["prints nothing", "true", 'last line is \\"\\"'],
    ["prints an infinite reward", "echo 1e999", "last line"],
  ])("gives no reward but handler_error when the grader %s", async (_what, script, detail) => {
    const error = await rejectionOf(grade(script));
    expect(error).toMatchObject({ reason: "handler_error" });
    expect(JSON.stringify(String(error))).toContain(detail);
  });

  test("takes no score from an output that was cut, whose last line is not the grader's", async () => {
    const flood = "yes 1 | head -c 3000000; echo; echo 0";
    const error = await rejectionOf(grade(flood));
    expect(error).toMatchObject({ reason: "handler_error", detail: expect.stringContaining("more than") });
  });

  test.each(["/workspace//a", "/workspace/../grader/score.sh", "/workspace/./a", "/workspace/", "/", "/a\0b"])(
    "refuses the artifact path %p, which names another file or two of one name",
    (path) => {
      const task = { id: "t", handler: "command", prompt: "p", eval: { command: ["true"] }, artifacts: [path] };
      expect(() => createRegistry(systemClock).parse(task)).toThrow("artifacts of a command task");
    },
  );
});
