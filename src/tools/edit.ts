import { z } from "zod";
import { assert, RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { defineTool } from "./define-tool.ts";
import { type EditResult, insertAfter, linesOf, numbered, replaceOnce, snippet } from "./edit-text.ts";
import { say } from "./observation.ts";
import type { ToolAnswer, ToolContext } from "./tool.ts";

const LISTED_MAX = 200;
/** More lines than a file of `editFileBytesMax` can have. */
const LINES_MAX = 100_000_000;

const EditArguments = z.strictObject({
  command: z.enum(["view", "create", "str_replace", "insert"]),
  path: z.string().regex(/^\/[^\0]*$/, "an absolute path, such as /workspace/solution.py"),
  view_range: z
    .array(z.int().min(-1).max(LINES_MAX))
    .length(2)
    .optional()
    .describe("view: first and last line, from 1; -1 is the last"),
  file_text: z.string().optional().describe("create: the whole content"),
  old_str: z.string().optional().describe("str_replace: text that stands exactly once in the file"),
  new_str: z.string().optional().describe("str_replace, insert: the text to put in"),
  insert_line: z
    .int()
    .min(0)
    .max(LINES_MAX)
    .optional()
    .describe("insert: the line after which to insert; 0 is the beginning"),
});
type EditArguments = z.infer<typeof EditArguments>;

/** Looks at and changes files of the job's sandbox. */
export const editTool = defineTool({
  name: "edit",
  description:
    "Views, creates and changes files. view: a file with line numbers, or the names in a folder. create: writes a file. str_replace: replaces old_str, which must stand exactly once, by new_str. insert: puts new_str after insert_line.",
  arguments: EditArguments,
  needsSandbox: true,
  async call(args, context) {
    const { sandbox } = context;
    assert(sandbox !== null, "edit is offered with a sandbox only");
    const missing = missingArgument(args);
    if (missing !== null) return say(`${args.command} needs ${missing}`);
    try {
      if (args.command === "create") return await create(sandbox, args, context);
      const text = await readText(sandbox, args.path, context);
      if (typeof text !== "string") return text;
      if (args.command === "view") return view(text, args);
      return await change(sandbox, args, context, text);
    } catch (error) {
      if (!(error instanceof RolloutError) || error.reason !== "sandbox_limit") throw error;
      // A full disk or a path that cannot be written is the model's to mend; a sandbox that is gone throws here.
      await kindOf(sandbox, args.path, context);
      return say(`${error.detail}. bash can do what edit cannot.`);
    }
  },
});

function missingArgument(args: EditArguments): string | null {
  if (args.command === "create" && args.file_text === undefined) return "file_text";
  if (args.command === "str_replace" && args.old_str === undefined) return "old_str";
  if (args.command === "insert" && args.insert_line === undefined) return "insert_line";
  return args.command === "insert" && args.new_str === undefined ? "new_str" : null;
}

async function create(sandbox: Sandbox, args: EditArguments, { signal }: ToolContext): Promise<ToolAnswer> {
  const text = args.file_text ?? "";
  await sandbox.writeFile({ path: args.path, bytes: Buffer.from(text) }, signal);
  return say(`${args.path} was written: ${linesOf(text).length} lines.`);
}

function view(text: string, { path, view_range: range }: EditArguments): ToolAnswer {
  const count = linesOf(text).length;
  if (count === 0) return say(`${path} is empty.`);
  const [from = 1, end = -1] = range ?? [];
  const to = end === -1 ? count : end;
  if (from < 1 || from > count || to < from) {
    return say(`view_range ${from} to ${end} is not in the file, which has ${count} lines`);
  }
  return say(numbered(text, from, to));
}

async function change(
  sandbox: Sandbox,
  args: EditArguments,
  { signal }: ToolContext,
  text: string,
): Promise<ToolAnswer> {
  const put = args.new_str ?? "";
  const result: EditResult =
    args.command === "insert"
      ? insertAfter(text, args.insert_line ?? 0, put)
      : replaceOnce(text, args.old_str ?? "", put);
  if ("problem" in result) return say(result.problem);
  await sandbox.writeFile({ path: args.path, bytes: Buffer.from(result.text) }, signal);
  return say(`${args.path} was changed:\n${snippet(result.text, result.line, linesOf(put).length)}`);
}

/** The file's text, or the answer that says why there is none. */
async function readText(sandbox: Sandbox, path: string, context: ToolContext): Promise<string | ToolAnswer> {
  const bytes = await sandbox.readFile(path, LIMITS.editFileBytesMax);
  if (bytes === null) return whyNoFile(sandbox, path, context);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // not UTF-8
  }
  return say(`${path} is a binary file of ${bytes.length} bytes; use bash to look at it.`);
}

async function whyNoFile(sandbox: Sandbox, path: string, context: ToolContext): Promise<ToolAnswer> {
  const kind = await kindOf(sandbox, path, context);
  if (kind === "") return say(`${path} does not exist.`);
  if (kind !== "directory") return say(`${path} is a ${kind} that cannot be read.`);
  const list = `find ${quote(path)} -mindepth 1 -maxdepth 2 -not -name '.*' | sort | head -n ${LISTED_MAX}`;
  const { output } = await sandbox.shell(list, { timeoutMs: context.toolMs, signal: context.signal });
  return say(`${path} is a folder:\n${output}`);
}

/** `directory`, `regular file`, `fifo`, ...; empty when there is nothing. */
async function kindOf(sandbox: Sandbox, path: string, { toolMs, signal }: ToolContext): Promise<string> {
  const { output, exitCode } = await sandbox.shell(`stat -L -c %F -- ${quote(path)} 2>/dev/null`, {
    timeoutMs: toolMs,
    signal,
  });
  return exitCode === 0 ? output.trim() : "";
}

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
