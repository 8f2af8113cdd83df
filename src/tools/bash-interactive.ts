import { z } from "zod";
import { assert } from "../errors.ts";
import type { TerminalInput, TerminalKey } from "../sandbox/sandbox.ts";
import { defineTool } from "./define-tool.ts";
import { observe } from "./observation.ts";

const KEYS: readonly TerminalKey[] = ["C-c", "C-d", "C-z"];

/** Models write truth as text now and then, and ProRL's own schema has it so. */
const IsInput = z
  .union([z.boolean(), z.enum(["true", "false"])])
  .default(false)
  .describe("true: command is typed into the program that runs, with a newline at its end, or is a key such as C-c");

/**
 * The persistent shell of the job's sandbox on a pseudo-terminal, with ProRL's arguments: programs that ask can be
 * answered, and a command that runs on can be looked at, interrupted or put into the background.
 */
export const bashInteractiveTool = defineTool({
  name: "bash_interactive",
  shownAs: "bash",
  description:
    "Runs a command in a bash shell on a terminal; variables, working directory and jobs are kept between calls. A command that is silent for long or runs past the time limit goes on: the answer has what it wrote so far. Then an empty command shows more of its output; with is_input true, command is a line for its stdin, or the key C-c (interrupt), C-z (suspend) or C-d (end of input).",
  arguments: z.strictObject({
    command: z.string().describe("the command, one line or several; empty for more output of the one that runs"),
    is_input: IsInput,
  }),
  needsSandbox: true,
  async call({ command, is_input: isInput }, { sandbox, toolMs, outputChars, attachments, signal }) {
    assert(sandbox !== null, "bash is offered with a sandbox only");
    const typed = toTyped(command, isInput === true || isInput === "true");
    return observe(await sandbox.terminal(typed, { timeoutMs: toolMs, signal }), attachments, outputChars);
  },
});

/** ProRL's models send keys without `is_input` too: no command is named C-c. */
function toTyped(command: string, isInput: boolean): TerminalInput {
  const key = KEYS.find((each) => each === command.trim());
  if (key !== undefined) return { kind: "key", key };
  if (isInput) return { kind: "line", text: command.replace(/\n$/, "") };
  return command.trim() === "" ? { kind: "more" } : { kind: "command", text: command };
}
