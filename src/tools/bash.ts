import { z } from "zod";
import { assert } from "../errors.ts";
import { defineTool } from "./define-tool.ts";
import { observe } from "./observation.ts";

/** The persistent shell of the job's sandbox. */
export const bashTool = defineTool({
  name: "bash",
  description:
    "Runs a command in a bash shell that keeps its variables and working directory between calls. stdin is empty, so a program that asks for input ends. The answer is what the command wrote to stdout and stderr.",
  arguments: z.strictObject({ command: z.string().min(1).describe("the command, one line or several") }),
  needsSandbox: true,
  async call({ command }, { sandbox, toolMs, outputChars, attachments, signal }) {
    assert(sandbox !== null, "bash is offered with a sandbox only");
    return observe(await sandbox.shell(command, { timeoutMs: toolMs, signal }), attachments, outputChars);
  },
});
