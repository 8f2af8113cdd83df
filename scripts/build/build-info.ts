import { join } from "node:path";
import type { BuildInfo } from "../../src/version.ts";
import { runCommand } from "../setup/command.ts";

const ROOT = join(import.meta.dir, "../..");
const COMMIT_CHARS = 12;

/**
 * What a binary says of itself. The commit comes from git, else from `ROLLOUTD_COMMIT` (a container's build has no
 * .git), else it is `unknown`; the date is `SOURCE_DATE_EPOCH` where that is set, so that a build can be repeated.
 */
export async function readBuildInfo(bwrapVersion: string | null): Promise<BuildInfo> {
  const epoch = process.env.SOURCE_DATE_EPOCH;
  const built = epoch === undefined ? new Date() : new Date(Number(epoch) * 1000);
  if (Number.isNaN(built.getTime())) throw new Error(`SOURCE_DATE_EPOCH is no number of seconds: ${epoch}`);
  return { commit: await readCommit(), builtAt: `${built.toISOString().slice(0, 19)}Z`, bwrapVersion };
}

async function readCommit(): Promise<string> {
  const git = (...args: string[]) => runCommand(["git", "-C", ROOT, ...args]);
  try {
    const commit = (await git("rev-parse", `--short=${COMMIT_CHARS}`, "HEAD")).trim();
    const changes = (await git("status", "--porcelain")).trim();
    return changes === "" ? commit : `${commit}+changes`;
  } catch {
    return process.env.ROLLOUTD_COMMIT || "unknown"; // no git, or no checkout
  }
}
