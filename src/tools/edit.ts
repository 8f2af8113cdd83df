import { z } from "zod";
import { assert, RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { defineTool } from "./define-tool.ts";
import { historyOf } from "./edit-history.ts";
import { type EditResult, insertAfter, lineEndsOf, linesOf, replaceOnce, snippet } from "./edit-text.ts";
import { binary, textOf, view } from "./edit-view.ts";
import { say } from "./observation.ts";
import type { ToolAnswer, ToolContext } from "./tool.ts";

/** More lines than a file that can be viewed has. */
const LINES_MAX = 100_000_000;

const EditArguments = z.strictObject({
  command: z.enum(["view", "create", "str_replace", "insert", "undo_edit"]),
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

const EDIT = {
  description:
    "Views, creates and changes files. view: a file with line numbers, or the names in a folder. create: writes a file. str_replace: replaces old_str, which must stand exactly once, by new_str. insert: puts new_str after insert_line. undo_edit: takes the last change of the file back.",
  arguments: EditArguments,
  needsSandbox: true,
  async call(args: EditArguments, context: ToolContext): Promise<ToolAnswer> {
    const { sandbox } = context;
    assert(sandbox !== null, "edit is offered with a sandbox only");
    const missing = missingArgument(args);
    if (missing !== null) return say(`${args.command} needs ${missing}`);
    try {
      if (args.command === "view") return await view(sandbox, args);
      if (args.command === "undo_edit") return await undo(sandbox, args.path, context.signal);
      return await change(sandbox, args, context.signal);
    } catch (error) {
      if (!(error instanceof RolloutError) || error.reason !== "sandbox_limit") throw error;
      // A full disk or a path that cannot be written is the model's to mend; a sandbox that is gone throws here.
      const end = await Promise.race([sandbox.ended, Promise.resolve(null)]);
      if (end !== null) throw error;
      return say(`${error.detail}. bash can do what this tool cannot.`);
    }
  },
};

/** Looks at and changes files of the job's sandbox. */
export const editTool = defineTool({ name: "edit", ...EDIT });

/** The same under ProRL's name, which models trained on it know. */
export const strReplaceEditorTool = defineTool({ name: "str_replace_editor", ...EDIT });

function missingArgument(args: EditArguments): string | null {
  if (args.command === "create" && args.file_text === undefined) return "file_text";
  if (args.command === "str_replace" && args.old_str === undefined) return "old_str";
  if (args.command === "insert" && args.insert_line === undefined) return "insert_line";
  return args.command === "insert" && args.new_str === undefined ? "new_str" : null;
}

async function change(sandbox: Sandbox, args: EditArguments, signal: AbortSignal): Promise<ToolAnswer> {
  const { path } = args;
  if (args.command === "create") {
    const before = await textBefore(sandbox, path);
    await write(sandbox, { path, before, text: args.file_text ?? "" }, signal);
    return say(`${path} was written: ${linesOf(args.file_text ?? "").length} lines.`);
  }
  const bytes = await sandbox.readFile(path, LIMITS.editFileBytesMax);
  if (bytes === null) return view(sandbox, { path }); // says what is there instead
  const text = textOf(bytes);
  if (text === null) return say(binary(path, bytes.length));
  const result = changed(text, args);
  if ("problem" in result) return say(result.problem);
  await write(sandbox, { path, before: bytes, text: result.text }, signal);
  const shown = snippet(result.text.replaceAll("\r\n", "\n"), result.line, linesOf(args.new_str ?? "").length);
  return say(`${path} was changed:\n${shown}`);
}

/** In a file whose lines all end with CRLF the model's own lines do too: it is not shown them. */
function changed(text: string, args: EditArguments): EditResult {
  const isCrlf = lineEndsOf(text) === "crlf";
  const plain = (given: string) => (isCrlf ? given.replaceAll("\r\n", "\n") : given);
  const put = plain(args.new_str ?? "");
  const result =
    args.command === "insert"
      ? insertAfter(plain(text), args.insert_line ?? 0, put)
      : replaceOnce(plain(text), plain(args.old_str ?? ""), put);
  return "problem" in result || !isCrlf ? result : { ...result, text: result.text.replaceAll("\n", "\r\n") };
}

async function undo(sandbox: Sandbox, path: string, signal: AbortSignal): Promise<ToolAnswer> {
  const history = historyOf(sandbox);
  const last = history.last(path);
  if (last === null) return say(`There is no change of ${path} to take back.`);
  const now = await sandbox.readFile(path, LIMITS.sandboxFileBytesMax);
  if (!last.isCurrent(now)) {
    return say(`${path} was changed by something else since, which undo_edit would lose; it is left as it is.`);
  }
  if (last.before === null) await sandbox.removeFile(path, signal);
  else await sandbox.writeFile({ path, bytes: last.before }, signal);
  history.drop(path);
  if (last.before === null) return say(`${path} was removed: it did not exist before.`);
  const text = textOf(last.before);
  return say(
    `The last change of ${path} was taken back${text === null ? "" : `; it has ${linesOf(text).length} lines`}.`,
  );
}

/** What a file to be replaced holds, so that it can be put back; null when there is none. */
async function textBefore(sandbox: Sandbox, path: string): Promise<Uint8Array | null> {
  return (await sandbox.kindOf(path)) === "file" ? sandbox.readFile(path, LIMITS.sandboxFileBytesMax) : null;
}

async function write(
  sandbox: Sandbox,
  { path, before, text }: { path: string; before: Uint8Array | null; text: string },
  signal: AbortSignal,
): Promise<void> {
  const bytes = Buffer.from(text);
  try {
    await sandbox.writeFile({ path, bytes }, signal);
  } catch (error) {
    // The old text was cut off to make room. It had its place before; where it has none now, nothing can be done.
    if (before !== null) await sandbox.writeFile({ path, bytes: before }, signal).catch(() => {});
    throw error;
  }
  historyOf(sandbox).add(path, before, bytes);
}
