import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { AttachmentBudget, Attachments } from "../../src/tools/attachments.ts";
import { cutMiddle } from "../../src/tools/observation.ts";
import { createToolbox, TOOL_NAMES, toolClash } from "../../src/tools/toolbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const toolbox = createToolbox(
  TOOL_NAMES.filter((name) => name !== "bash_interactive" && name !== "str_replace_editor"),
);
const attachments = () => new Attachments(new AttachmentBudget(), { turn: 0, call: 1 });
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  host = await testSandboxHost();
  sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, never);
});
afterAll(() => host.close());

const call = (name: string, args: unknown) =>
  toolbox.call(name, typeof args === "string" ? args : JSON.stringify(args), {
    sandbox,
    toolMs: 5_000,
    outputChars: 16_384,
    attachments: attachments(),
    signal: never,
  });

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

  test("shows the tools that have ProRL's names and arguments", () => {
    const { schemas } = createToolbox(["bash_interactive", "str_replace_editor"]);
    expect(schemas.map((schema) => schema.name)).toEqual(["bash", "str_replace_editor"]);
    const names = schemas.map(({ parameters }) => Object.keys((parameters as { properties: object }).properties));
    expect(names).toEqual([
      ["command", "is_input"],
      ["command", "path", "view_range", "file_text", "old_str", "new_str", "insert_line"],
    ]);
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
    [
      "edit",
      '{"command": "move", "path": "/a"}',
      'command ("view" | "create" | "str_replace" | "insert" | "undo_edit")',
    ],
    ["edit", '{"command": "create", "path": "/a"}', "create needs file_text"],
    ["edit", '{"command": "view", "path": "a.py"}', "an absolute path"],
  ])("answers a wrong call of %s with %s by what is accepted", async (name, args, answer) => {
    expect((await call(name, args)).output).toContain(answer);
  });

  test("answers that a task without sandbox has none", async () => {
    const answer = await toolbox.call("bash", '{"command":"ls"}', {
      sandbox: null,
      toolMs: 1_000,
      outputChars: 16_384,
      attachments: attachments(),
      signal: never,
    });
    expect(answer.output).toContain("no sandbox");
  });

  test("throws when the sandbox is gone", async () => {
    const gone = await host.open({ image: "host", limits: TEST_LIMITS }, never);
    await gone.close();
    for (const args of ['{"command":"view","path":"/a"}', '{"command":"create","path":"/a","file_text":""}']) {
      expect(
        toolbox.call("edit", args, {
          sandbox: gone,
          toolMs: 1_000,
          outputChars: 16_384,
          attachments: attachments(),
          signal: never,
        }),
      ).rejects.toThrow("sandbox_lost");
    }
  });
});

describe("toolClash", () => {
  test("names two tools that the model would be shown as one", () => {
    expect(toolClash(["finish", "bash_interactive", "bash"])).toEqual(["bash", "bash_interactive"]);
    expect(toolClash(["bash", "python", "bash", "edit", "str_replace_editor"])).toBeNull();
  });
});

describe("bash and python", () => {
  test("show the exit code when it is not 0, and what happened at a time-out", async () => {
    expect(await call("bash", { command: "echo a; false" })).toMatchObject({ output: "a\n[exit code 1]", exitCode: 1 });
    const late = await toolbox.call("bash", '{"command":"sleep 100"}', {
      sandbox,
      toolMs: 100,
      outputChars: 16_384,
      attachments: attachments(),
      signal: never,
    });
    expect(late).toMatchObject({ timedOut: true });
    expect(late.output).toContain("The time limit of 100 ms passed");
    expect(await call("python", { code: "6 * 7" })).toMatchObject({ output: "42\n", exitCode: 0 });
  });

  test("say by which signal a command was ended", async () => {
    const killed = await call("bash", { command: "sh -c 'kill -SEGV $$'" });
    expect(killed).toMatchObject({ exitCode: 139, signal: "SIGSEGV" });
    expect(killed.output).toEndWith("[exit code 139, SIGSEGV]");
  });

  test("show as much of a long output as the job asks for", async () => {
    const args = JSON.stringify({ command: "seq 1 1000" });
    const context = { sandbox, toolMs: 5_000, outputChars: 256, attachments: attachments(), signal: never };
    const { output, truncated } = await toolbox.call("bash", args, context);
    expect([truncated, output.length < 600]).toEqual([true, true]);
    expect(output).toContain(`[... ${3_893 - 256} bytes left out`);
  });

  test("cut the middle of a long output, count it and keep the whole", async () => {
    const answer = await call("bash", { command: "seq 1 1000000" });
    expect(answer.truncated).toBe(true);
    expect(answer.output.length).toBeLessThan(LIMITS.observationCharsMax + 200);
    const left = Number(/\[\.\.\. (\d+) bytes left out/.exec(answer.output)?.[1]);
    expect(left).toBe(6_888_896 - LIMITS.observationCharsMax);
    expect(answer.output).toEndWith("999999\n1000000\n[all 6888896 bytes are kept outside as output-0-1.txt]");
    const [whole, ...others] = answer.attachments;
    expect(whole?.name).toBe("output-0-1.txt");
    const lines = Array.from({ length: 1_000_000 }, (_, i) => `${i + 1}\n`).join("");
    expect(Buffer.from(whole?.bytes ?? []).equals(Buffer.from(lines))).toBe(true);
    expect(others).toEqual([]);
  });

  test("keep nothing of an output that is shown whole, and the first bytes of one over the bound", async () => {
    expect((await call("bash", { command: "echo short" })).attachments).toEqual([]);
    const bytes = LIMITS.outputFileBytesMax + 5_000_000;
    const answer = await call("bash", { command: `head -c ${bytes} /dev/zero | tr '\\0' x` });
    expect(answer.output).toContain(`[the first ${LIMITS.outputFileBytesMax} of ${bytes} bytes are kept`);
    expect(answer.attachments.map((file) => file.bytes.length)).toEqual([LIMITS.outputFileBytesMax]);
  });

  test("say what is not kept when the job has kept its share", async () => {
    const budget = new AttachmentBudget();
    expect(budget.take(LIMITS.toolFilesBytesMax - 100_000)).toBe(true);
    const context = (number: number) => ({
      sandbox,
      toolMs: 5_000,
      outputChars: 16_384,
      attachments: new Attachments(budget, { turn: 3, call: number }),
      signal: never,
    });
    const ask = { command: "head -c 60000 /dev/zero | tr '\\0' y" };
    const first = await toolbox.call("bash", JSON.stringify(ask), context(1));
    expect(first.attachments.map((file) => file.name)).toEqual(["output-3-1.txt"]);
    const second = await toolbox.call("bash", JSON.stringify(ask), context(2));
    expect(second.attachments).toEqual([]);
    expect(second.output).toEndWith("[the whole output of 60000 bytes is not kept: this job may keep no more files]");
  });

  test("show what a terminal would: no colours, the last state of a progress bar, and what is no text", async () => {
    const bar = await call("bash", {
      command: "printf '\\033[31mred\\033[0m\\n'; for i in 1 50 100; do printf '\\r%3d%%' $i; done; echo",
    });
    expect(bar.output).toBe("red\n100%\n");
    const binary = await call("bash", { command: "printf 'a\\000\\377\\036b'" });
    expect(binary.output).toBe("a\ufffd\ufffd\ufffdb\n[3 characters are no text and are shown as \ufffd]");
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
    const whole = (head: string) => ({ head, tail: "", leftBytes: 0 });
    expect(cutMiddle(whole("short"))).toEqual(whole("short"));
    const { head, tail } = cutMiddle(whole(`a${"😀".repeat(LIMITS.observationCharsMax)}`));
    expect([head.isWellFormed(), tail.isWellFormed()]).toEqual([true, true]);
  });

  test("counts what is left out beside what was left out before", () => {
    const max = LIMITS.observationCharsMax;
    const cut = cutMiddle({ head: "ä".repeat(max), tail: "b".repeat(3), leftBytes: 1_000 });
    expect(cut).toEqual({ head: "ä".repeat(max / 2), tail: "bbb", leftBytes: 1_000 + max });
  });

  test("answers soon to a megabyte of colours", async () => {
    const command = "yes $'\\e[31mred\\e[0m' | head -c 1000000";
    const start = performance.now();
    const answer = await call("bash", { command });
    expect(answer.output.replace(/\n\[\.\.\..*$/s, "")).toMatch(/^(red\n)+(red?|r)?$/);
    // Three times what it takes on a busy machine.
    expect(performance.now() - start).toBeLessThan(300);
  });
});
