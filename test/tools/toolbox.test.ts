import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { cutMiddle } from "../../src/tools/observation.ts";
import { createToolbox, TOOL_NAMES } from "../../src/tools/toolbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const toolbox = createToolbox(TOOL_NAMES);
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  host = await testSandboxHost();
  sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, never);
});
afterAll(() => host.close());

const call = (name: string, args: unknown) =>
  toolbox.call(name, typeof args === "string" ? args : JSON.stringify(args), { sandbox, toolMs: 5_000, signal: never });

describe("createToolbox", () => {
  test("offers the schemas of the named tools, in their order, once", () => {
    const { schemas } = createToolbox(["finish", "bash", "finish"]);
    expect(schemas.map((schema) => schema.name)).toEqual(["finish", "bash"]);
    expect(schemas[1]?.parameters).toEqual({
      type: "object",
      properties: { command: { type: "string", minLength: 1, description: expect.any(String) } },
      required: ["command"],
      additionalProperties: false,
    });
  });

  test("knows whether a sandbox is needed", () => {
    expect(createToolbox(["think", "finish"]).needsSandbox).toBe(false);
    expect(createToolbox(["finish", "python"]).needsSandbox).toBe(true);
  });

  test.each([
    ["nope", "{}", 'There is no tool "nope". There are bash, python, edit, think, finish.'],
    ["bash", "{", "are not JSON"],
    ["bash", "[1]", "It takes command (string)."],
    ["bash", '{"command": 5}', "expected string, received number. It takes command (string)."],
    ["bash", '{"command": "ls", "cwd": "/"}', 'Unrecognized key: "cwd"'],
    ["edit", '{"command": "move", "path": "/a"}', 'command ("view" | "create" | "str_replace" | "insert")'],
    ["edit", '{"command": "create", "path": "/a"}', "create needs file_text"],
    ["edit", '{"command": "view", "path": "a.py"}', "an absolute path"],
  ])("answers a wrong call of %s with %s by what is accepted", async (name, args, answer) => {
    expect((await call(name, args)).output).toContain(answer);
  });

  test("answers that a task without sandbox has none", async () => {
    const answer = await toolbox.call("bash", '{"command":"ls"}', { sandbox: null, toolMs: 1_000, signal: never });
    expect(answer.output).toContain("no sandbox");
  });

  test("throws when the sandbox is gone", async () => {
    const gone = await host.open({ image: "host", limits: TEST_LIMITS }, never);
    await gone.close();
    for (const args of ['{"command":"view","path":"/a"}', '{"command":"create","path":"/a","file_text":""}']) {
      expect(toolbox.call("edit", args, { sandbox: gone, toolMs: 1_000, signal: never })).rejects.toThrow(
        "sandbox_lost",
      );
    }
  });
});

describe("bash and python", () => {
  test("show the exit code when it is not 0, and what happened at a time-out", async () => {
    expect(await call("bash", { command: "echo a; false" })).toMatchObject({ output: "a\n[exit code 1]", exitCode: 1 });
    const late = await toolbox.call("bash", '{"command":"sleep 100"}', { sandbox, toolMs: 100, signal: never });
    expect(late).toMatchObject({ timedOut: true });
    expect(late.output).toContain("The time limit of 100 ms passed");
    expect(await call("python", { code: "6 * 7" })).toMatchObject({ output: "42\n", exitCode: 0 });
  });

  test("cut the middle of a long output and count it", async () => {
    const answer = await call("bash", { command: "seq 1 1000000" });
    expect(answer.truncated).toBe(true);
    expect(answer.output.length).toBeLessThan(LIMITS.observationCharsMax + 100);
    const left = Number(/\[\.\.\. (\d+) bytes left out/.exec(answer.output)?.[1]);
    expect(left).toBe(6_888_896 - LIMITS.observationCharsMax);
    expect(answer.output).toEndWith("999999\n1000000\n");
  });
});

describe("edit", () => {
  test("creates, views, replaces and inserts, and keeps the mode", async () => {
    expect(
      (await call("edit", { command: "create", path: "/workspace/x/a.sh", file_text: "echo 1\n" })).output,
    ).toContain("1 lines");
    await call("bash", { command: "chmod 755 /workspace/x/a.sh" });
    expect((await call("edit", { command: "view", path: "/workspace/x/a.sh" })).output).toBe("     1\techo 1");
    await call("edit", { command: "str_replace", path: "/workspace/x/a.sh", old_str: "echo 1", new_str: "echo 2" });
    await call("edit", { command: "insert", path: "/workspace/x/a.sh", insert_line: 1, new_str: "echo 3" });
    expect((await call("bash", { command: "/workspace/x/a.sh" })).output).toBe("2\n3\n");
  });

  test.each([
    ["/nope", "does not exist"],
    ["/workspace", "is a folder:\n/workspace/x"],
    ["/usr/bin/env", "is a binary file of"],
    ["/dev/zero", "is a character special file that cannot be read"],
  ])("answers a view of %s clearly", async (path, answer) => {
    expect((await call("edit", { command: "view", path })).output).toContain(answer);
  });

  test.each([
    ["a read-only path", "/usr/new", "EROFS"],
    ["a path below a file", "/etc/passwd/new", "ENOTDIR"],
    ["a folder", "/workspace", "EISDIR"],
  ])("answers a write to %s and goes on", async (_, path, answer) => {
    expect((await call("edit", { command: "create", path, file_text: "x" })).output).toContain(answer);
  });

  test("answers a full disk and a file over the cap", async () => {
    const full = await call("edit", {
      command: "create",
      path: "/workspace/big",
      file_text: "x".repeat(TEST_LIMITS.diskBytes + 1),
    });
    expect(full.output).toContain("disk is full");
    await call("bash", { command: "rm -f /workspace/big; truncate -s 17M /workspace/large" });
    expect((await call("edit", { command: "view", path: "/workspace/large" })).output).toContain("at most");
  });

  test("answers at once about a file of a million lines", async () => {
    await call("bash", { command: "yes '' | head -n 1048576 > /workspace/lines" });
    const start = performance.now();
    await call("edit", { command: "view", path: "/workspace/lines" });
    await call("edit", { command: "str_replace", path: "/workspace/lines", old_str: "x", new_str: "y" });
    expect(performance.now() - start).toBeLessThan(2_000);
    await call("bash", { command: "echo >> /workspace/lines" });
    const larger = await call("edit", { command: "view", path: "/workspace/lines" });
    expect(larger.output).toContain("at most 1048576 are read. bash can");
  });

  test("views a range, and names the lines there are when it is wrong", async () => {
    await call("edit", { command: "create", path: "/workspace/r", file_text: "a\nb\nc\n" });
    expect((await call("edit", { command: "view", path: "/workspace/r", view_range: [2, -1] })).output).toBe(
      "     2\tb\n     3\tc",
    );
    expect((await call("edit", { command: "view", path: "/workspace/r", view_range: [4, 5] })).output).toContain(
      "has 3 lines",
    );
  });
});

describe("think and finish", () => {
  test("answer, and finish carries the answer as text", async () => {
    expect((await call("think", { thought: "hm" })).final).toBeUndefined();
    expect((await call("finish", { answer: 42 })).final).toBe("42");
    expect((await call("finish", "")).final).toBe("");
  });
});

describe("cutMiddle", () => {
  test("leaves a text within the bound alone and never halves a character", () => {
    expect(cutMiddle("short")).toEqual({ text: "short", cut: false });
    const { text } = cutMiddle(`a${"😀".repeat(LIMITS.observationCharsMax)}`);
    expect(text.isWellFormed()).toBe(true);
  });
});
