import { RequestError } from "../errors.ts";
import type { Registry } from "../tasks/registry.ts";
import { CliError } from "./api-client.ts";

/** A row of a task file and where it stands. */
export interface Row {
  /** From 1; of a JSON array the position in it. */
  line: number;
  raw: unknown;
}

const FAULTS_SHOWN_MAX = 20;

/**
 * Rows of a JSONL file, or of a JSON file that holds an array or one object. Throws CliError with the line of each
 * fault: broken JSON, invalid UTF-8, no rows.
 */
export async function readRows(path: string): Promise<Row[]> {
  const file = Bun.file(path);
  if (!(await file.exists())) throw new CliError(`${path}: there is no such file`, 2);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(await file.bytes());
  } catch {
    throw new CliError(`${path}: is not UTF-8 text`, 2);
  }
  if (text.trim() === "") throw new CliError(`${path}: is empty; expected one JSON object a line`, 2);
  const whole = tryWhole(text);
  if (whole !== null) return whole;
  const rows: Row[] = [];
  const faults: string[] = [];
  for (const [at, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    try {
      rows.push({ line: at + 1, raw: JSON.parse(line) });
    } catch (error) {
      faults.push(`${path}:${at + 1}: is not JSON: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  throwFaults(faults);
  return rows;
}

/** Checks each row with the handlers, as the server will; every bad one is named by line and field. */
export function checkRows(path: string, rows: readonly Row[], registry: Registry): void {
  const faults: string[] = [];
  const lines = new Map<string, number>();
  for (const { line, raw } of rows) {
    try {
      const { task } = registry.parse(raw);
      const earlier = lines.get(task.id);
      if (earlier !== undefined) faults.push(`${path}:${line}: id ${task.id} stands in line ${earlier} too`);
      lines.set(task.id, line);
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      for (const fault of error.faults) {
        const accepted = fault.accepted === undefined ? "" : `; accepted: ${fault.accepted}`;
        faults.push(`${path}:${line}: ${fault.path || "the row"} ${fault.message}${accepted}`);
      }
      if (error.faults.length === 0) faults.push(`${path}:${line}: ${error.detail}`);
    }
  }
  throwFaults(faults);
}

/** A JSON document that is no JSONL: an array of rows, or one row over several lines. */
function tryWhole(text: string): Row[] | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    const document: unknown = JSON.parse(text);
    return (Array.isArray(document) ? document : [document]).map((raw: unknown, at) => ({ line: at + 1, raw }));
  } catch {
    return null; // then it is read line by line, and a fault has its line
  }
}

function throwFaults(faults: readonly string[]): void {
  if (faults.length === 0) return;
  const more = faults.length - FAULTS_SHOWN_MAX;
  const shown = [...faults.slice(0, FAULTS_SHOWN_MAX), ...(more > 0 ? [`... and ${more} more`] : [])];
  throw new CliError(shown.join("\n"), 2);
}
