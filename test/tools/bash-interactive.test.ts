import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { AttachmentBudget, Attachments } from "../../src/tools/attachments.ts";
import { createToolbox } from "../../src/tools/toolbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const toolbox = createToolbox(["bash_interactive"]);
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  host = await testSandboxHost();
  sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, never);
});
afterAll(() => host.close());

const call = (command: string, isInput?: boolean | string, toolMs = 500) => {
  const attachments = new Attachments(new AttachmentBudget(), { turn: 0, call: 1 });
  const args = JSON.stringify({ command, ...(isInput === undefined ? {} : { is_input: isInput }) });
  return toolbox.call("bash", args, { sandbox, toolMs, outputChars: 16_384, attachments, signal: never });
};

describe("bash_interactive", () => {
  test("takes a conversation as ProRL's models write it", async () => {
    expect(await call("cd /tmp && pwd")).toMatchObject({ output: "/tmp\n", exitCode: 0 });
    expect((await call("read -p 'Sure? [y/n] ' a; echo $a; sleep 100")).output).toStartWith(
      "Sure? [y/n] \n[The command still runs after 500 ms. An empty command shows more",
    );
    expect((await call("ls")).output).toStartWith("[It was not run: a command still runs.");
    expect((await call("y", "true")).output).toStartWith("y\n[The command still runs");
    expect((await call("")).output).toStartWith("[The command still runs after 500 ms.");
    expect(await call("C-c", true)).toMatchObject({ exitCode: 130, signal: "SIGINT" });
    expect((await call("pwd", "false")).output).toBe("/tmp\n");
    expect((await call("")).output).toBe("[Nothing is running in the terminal: give a command.]");
  });

  test("takes a key without is_input too", async () => {
    await call("sleep 100", false, 100);
    expect((await call("C-z")).output).toContain("Stopped");
    expect((await call("kill %1; echo x")).output).toContain("x\n");
  });

  test("shows colours, returns and echoes as a screen would", async () => {
    expect((await call("stty echo; printf '\\033[32mgreen\\033[0m\\n 1%%\\r100%%\\n'")).output).toBe("green\n100%\n");
  });

  test("answers a wrong call by what is accepted", async () => {
    expect((await call("ls", "maybe")).output).toContain("The arguments of bash are wrong: is_input");
  });
});
