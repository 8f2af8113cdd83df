import { LIMITS } from "../limits.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { lineEndsOf, linesOf, numbered } from "./edit-text.ts";
import { say } from "./observation.ts";
import type { ToolAnswer } from "./tool.ts";

const NEWLINE = 0x0a;

interface ViewArguments {
  path: string;
  view_range?: readonly number[] | undefined;
}

/** A file with line numbers, or the names in a folder and in its folders. */
export async function view(sandbox: Sandbox, args: ViewArguments): Promise<ToolAnswer> {
  const { path } = args;
  const kind = await sandbox.kindOf(path);
  if (kind === null) return say(`${path} does not exist, or may not be read.`);
  if (kind === "folder") return listing(sandbox, path);
  if (kind !== "file") return say(`${path} is a ${kind}, which has no text to view.`);
  const start = await sandbox.readPart(path, { start: 0, bytesMax: LIMITS.editFileBytesMax });
  if (start === null) return say(`${path} may not be read.`);
  if (start.size > start.bytes.length) return viewLarge(sandbox, args, start.size);
  const text = textOf(start.bytes);
  if (text === null) return say(binary(path, start.size));
  const lines = linesOf(text.replaceAll("\r\n", "\n"));
  if (lines.length === 0) return say(`${path} is empty.`);
  const range = rangeIn(args, lines.length);
  if (typeof range === "string") return say(range);
  const ends = { crlf: "\n[lines end with CRLF]", mixed: "\n[some lines end with CRLF, some with LF]", lf: "" }[
    lineEndsOf(text)
  ];
  return say(`${numbered(lines.join("\n"), range.from, range.to)}${ends}`);
}

/** The text of a file's bytes; null when it is no UTF-8 or holds a zero byte. */
export function textOf(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}

/** What is said of a file that is no text. */
export function binary(path: string, size: number): string {
  return `${path} is a binary file of ${size} bytes; use bash to look at it.`;
}

function rangeIn({ path, view_range: range }: ViewArguments, count: number): { from: number; to: number } | string {
  const [from = 1, end = -1] = range ?? [];
  const to = end === -1 ? count : end;
  if (from >= 1 && from <= count && to >= from) return { from, to };
  return `view_range ${from} to ${end} is not in ${path}, which has ${count} lines`;
}

/** A range of a file that is not read whole: its lines are counted in pieces, and only those asked for are kept. */
async function viewLarge(
  sandbox: Sandbox,
  { path, view_range: range }: ViewArguments,
  size: number,
): Promise<ToolAnswer> {
  const [from = 0, end = -1] = range ?? [];
  const hint = `${path} holds ${size} bytes: give view_range, or use bash`;
  if (range === undefined) return say(hint);
  if (from < 1 || (end !== -1 && end < from)) return say(`view_range ${from} to ${end} is no range of lines`);
  const kept: Uint8Array[] = [];
  let [line, keptBytes] = [1, 0];
  for (let at = 0; at < Math.min(size, LIMITS.viewBytesMax); at += LIMITS.editFileBytesMax) {
    const part = await sandbox.readPart(path, { start: at, bytesMax: LIMITS.editFileBytesMax });
    if (part === null || part.bytes.length === 0) break;
    const cut = linesBetween(part.bytes, { line, from, to: end === -1 ? Number.POSITIVE_INFINITY : end });
    line = cut.line;
    kept.push(cut.bytes);
    keptBytes += cut.bytes.length;
    if (cut.isOver || keptBytes > LIMITS.editFileBytesMax) break;
  }
  if (keptBytes === 0)
    return say(`line ${from} was not found in the first ${LIMITS.viewBytesMax} bytes of ${path}; use bash`);
  // Characters before the range are not checked, and its last may be cut.
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.concat(kept));
  if (text.includes("\0")) return say(binary(path, size));
  const lines = linesOf(text.replaceAll("\r\n", "\n"));
  return say(lines.map((each, i) => numbered(each, 1, 1).replace(/^ +1/, String(from + i).padStart(6))).join("\n"));
}

/** The bytes of lines `from` to `to` in a piece whose first byte belongs to line `line`. */
function linesBetween(bytes: Uint8Array, { line, from, to }: { line: number; from: number; to: number }) {
  let [start, at, now] = [line >= from ? 0 : bytes.length, 0, line];
  while (at < bytes.length) {
    const newline = bytes.indexOf(NEWLINE, at);
    if (newline < 0) break;
    at = newline + 1;
    now += 1;
    if (now === from) start = at;
    if (now > to) return { bytes: bytes.subarray(start, at), line: now, isOver: true };
  }
  return { bytes: bytes.subarray(start), line: now, isOver: false };
}

/** Two levels of names, those that begin with a dot left out. */
async function listing(sandbox: Sandbox, path: string): Promise<ToolAnswer> {
  const base = path.replace(/\/+$/, "");
  const shown: string[] = [];
  let more = false;
  const add = async (folder: string, isTop: boolean): Promise<void> => {
    const list = await sandbox.listFolder(folder === "" ? "/" : folder, LIMITS.viewNamesMax);
    if (list === null) return;
    more ||= list.more;
    for (const name of list.names.filter((each) => !each.startsWith("."))) {
      if (shown.length >= LIMITS.viewNamesMax) {
        more = true;
        return;
      }
      shown.push(`${folder}/${name}`);
      if (isTop && name.endsWith("/")) await add(`${folder}/${name.slice(0, -1)}`, false);
    }
  };
  await add(base, true);
  if (shown.length === 0 && !more) return say(`${path} is a folder without visible files.`);
  return say(`${path} is a folder:\n${shown.join("\n")}${more ? "\n[more are there; use bash]" : ""}`);
}
