import { existsSync, readdirSync } from "node:fs";
import { isAbsolute, join } from "node:path";
import { outputOf } from "./process.ts";

/** Older ones follow an agent's symlink when they make a mount point (CVE-2026-87766). */
export const BWRAP_VERSION_MIN = "0.12.0";

const VERSION_MS_MAX = 5_000;

export interface Bwrap {
  path: string;
  version: string;
}

/** Where a bwrap may be, best first: the folders of `PATH`, then `CACHE/bubblewrap-VERSION` of each cache, newest first. */
export function bwrapCandidates(pathVariable: string, caches: readonly string[]): string[] {
  const onPath = pathVariable.split(":").filter((folder) => isAbsolute(folder));
  const built = caches.flatMap((cache) =>
    namesIn(cache)
      .filter((name) => /^bubblewrap-\d/.test(name))
      .sort((a, b) => compareVersions(b.slice(11), a.slice(11)))
      .map((name) => join(cache, name)),
  );
  return [...onPath, ...built].map((folder) => join(folder, "bwrap")).filter((file) => existsSync(file));
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return []; // not there, or not ours to look into
  }
}

/** The first candidate that runs and is at least `BWRAP_VERSION_MIN`; null when none is. */
export async function findBwrap(candidates: readonly string[]): Promise<Bwrap | null> {
  for (const path of candidates) {
    const version = await bwrapVersion(path);
    if (version !== null && compareVersions(version, BWRAP_VERSION_MIN) >= 0) return { path, version };
  }
  return null;
}

/** All candidates that run, whatever their version, in their order. */
export async function versionsOf(candidates: readonly string[]): Promise<Bwrap[]> {
  const versions = await Promise.all(candidates.map(async (path) => ({ path, version: await bwrapVersion(path) })));
  return versions.flatMap(({ path, version }) => (version === null ? [] : [{ path, version }]));
}

/** What `path --version` says it is; null when it is no bubblewrap. */
export async function bwrapVersion(path: string): Promise<string | null> {
  const answer = await outputOf([path, "--version"], VERSION_MS_MAX);
  return /^bubblewrap (\d+(?:\.\d+)*)/.exec(answer?.stdout ?? "")?.[1] ?? null;
}

/** Dotted numbers, compared as numbers: negative when `a` is older. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => text.split(".").map(Number));
  for (let i = 0; i < Math.max(left?.length ?? 0, right?.length ?? 0); i += 1) {
    const difference = (left?.[i] ?? 0) - (right?.[i] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
