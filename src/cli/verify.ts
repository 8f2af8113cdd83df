import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { NativeTrajectory as NativeSchema, type NativeTrajectory, readNative } from "../formats/native.ts";
import { readTrajectories } from "../store/read-only.ts";
import { assemble } from "../trajectory/assemble.ts";
import { type LedgerReport, verify } from "../trajectory/verify.ts";
import { CliError } from "./api-client.ts";
import { readRows } from "./read-rows.ts";

/** What a run of `verify` came to. */
interface VerifySummary {
  exact: number;
  forked: number;
  rejected: number;
  /** No ids to check: chat-only models, or jobs that sampled nothing. */
  empty: number;
  tokens: number;
}

/** `rolloutd verify PATH`: a data folder, a database, or a file of exported trajectories. Exit code 1 when one is rejected. */
export function verifyPath(path: string, options: { quiet: boolean }): Promise<number> {
  if (!existsSync(path)) throw new CliError(`${path}: there is no such file or folder`, 2);
  if (statSync(path).isDirectory()) return Promise.resolve(verifyDatabase(join(path, "rolloutd.db"), options));
  return path.endsWith(".db") ? Promise.resolve(verifyDatabase(path, options)) : verifyFile(path, options);
}

/** Every trajectory of a database: the turn records against the branches, where RUN has ended. */
function verifyDatabase(file: string, options: { quiet: boolean }): number {
  const startMs = performance.now();
  const summary: VerifySummary = { exact: 0, forked: 0, rejected: 0, empty: 0, tokens: 0 };
  for (const inspected of readTrajectories(file)) {
    if ("problem" in inspected) {
      summary.rejected += 1;
      console.log(`${inspected.jobId}  rejected\n  cannot be read: ${inspected.problem}`);
      continue;
    }
    const { turns, branches } = inspected.trajectory;
    const report = verify(turns, branches.length > 0 ? branches : assembled(turns));
    summary.tokens += turns.reduce((sum, turn) => sum + turn.promptIds.length + turn.sampledIds.length, 0);
    count(summary, report, turns.length);
    if (!options.quiet || report.verdict === "rejected") console.log(describeReport(inspected.jobId, report));
  }
  return finish(summary, startMs);
}

/** Branches of an attempt whose RUN has not ended; none when the records do not fit together, which `verify` reports. */
function assembled(turns: Parameters<typeof assemble>[0]) {
  try {
    return assemble(turns);
  } catch {
    return [];
  }
}

/** Trajectories as `results --json`, `submit --out` or the API gave them. */
async function verifyFile(path: string, options: { quiet: boolean }): Promise<number> {
  const startMs = performance.now();
  const summary: VerifySummary = { exact: 0, forked: 0, rejected: 0, empty: 0, tokens: 0 };
  for (const { line, raw } of await readRows(path)) {
    const trajectory = toTrajectory(path, line, raw);
    if (trajectory === null) {
      summary.empty += 1;
      continue;
    }
    const { turns, branches, lastHash } = readNative(trajectory);
    const report = verify(turns, branches, lastHash);
    summary.tokens += branches.reduce((sum, branch) => sum + branch.tokenIds.length, 0);
    count(summary, report, branches.length);
    if (!options.quiet || report.verdict === "rejected") console.log(describeReport(trajectory.job_id, report));
  }
  return finish(summary, startMs);
}

/** Prints what was found for one trajectory: the verdict, and where it breaks. */
function describeReport(name: string, report: LedgerReport): string {
  const faults = report.faults.map(({ field, branch, turn, position, detail }) => {
    const where = [
      `branch ${branch}`,
      turn === null ? null : `turn ${turn}`,
      position === null ? null : `position ${position}`,
    ];
    return `  ${field} at ${where.filter((part) => part !== null).join(", ")}: ${detail}`;
  });
  return [`${name}  ${report.verdict}`, ...faults].join("\n");
}

function count(summary: VerifySummary, report: LedgerReport, branches: number): void {
  if (branches === 0 && report.verdict === "exact") summary.empty += 1;
  else summary[report.verdict] += 1;
}

function finish(summary: VerifySummary, startMs: number): number {
  const seconds = (performance.now() - startMs) / 1_000;
  const { exact, forked, rejected, empty, tokens } = summary;
  console.log(
    `${exact} exact, ${forked} forked, ${rejected} rejected, ${empty} without tokens; ${tokens} tokens in ${seconds.toFixed(2)} s`,
  );
  return rejected === 0 ? 0 : 1;
}

/** A bare trajectory, or a line of the results log with one inside; null when the line says there is none. */
function toTrajectory(path: string, line: number, raw: unknown): NativeTrajectory | null {
  const inner = typeof raw === "object" && raw !== null && "trajectory" in raw ? raw.trajectory : raw;
  if (inner === null) return null;
  const parsed = NativeSchema.safeParse(inner);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new CliError(
    `${path}:${line}: is no native trajectory: ${issue?.path.map(String).join(".")} ${issue?.message}`,
    2,
  );
}
