import { z } from "zod";
import { assert } from "../errors.ts";
import { defineTool } from "./define-tool.ts";
import { observe } from "./observation.ts";

/** The persistent Python worker of the job's sandbox. */
export const pythonTool = defineTool({
  name: "python",
  description:
    "Runs Python code as a notebook cell: variables and imports are kept between calls, and the value of a last expression is shown. Open matplotlib figures are saved after each cell. The answer is what the code printed.",
  arguments: z.strictObject({ code: z.string().min(1).describe("the code, one line or several") }),
  needsSandbox: true,
  async call({ code }, { sandbox, toolMs, outputChars, attachments, signal }) {
    assert(sandbox !== null, "python is offered with a sandbox only");
    return observe(await sandbox.python(code, { timeoutMs: toolMs, signal }), attachments, outputChars);
  },
});
