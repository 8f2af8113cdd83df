import { existsSync } from "node:fs";
import { type ServerConfig, searchPath } from "../config.ts";
import { StartError } from "../start-error.ts";
import { unpackBundledBwrap } from "./bundled-bwrap.ts";
import { BWRAP_VERSION_MIN, type Bwrap, bwrapCandidates, findBwrap, versionsOf } from "./find-bwrap.ts";

type Config = Pick<ServerConfig, "bwrapPath" | "cacheDirs" | "dataDir" | "sandboxUid" | "origins">;

/**
 * The bubblewrap to use: the one that `--bwrap` names and no other, else one of PATH or the caches, else the one inside
 * this program. Null when there is none that is new enough. Throws StartError when the one inside cannot be unpacked.
 */
export async function chooseBwrap(config: Config): Promise<Bwrap | null> {
  const { bwrapPath, cacheDirs, dataDir } = config;
  if (bwrapPath !== null) return findBwrap([bwrapPath]);
  const found = await findBwrap(bwrapCandidates(searchPath().join(":"), cacheDirs));
  if (found !== null) return found;
  const sandboxUid = process.getuid?.() === 0 ? config.sandboxUid : null;
  try {
    return await unpackBundledBwrap({ dataDir, sandboxUid });
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new StartError(`${why}; see \`rolloutd doctor\``, { cause });
  }
}

/** The bubblewrap to use. Throws StartError with what was looked at when there is none. */
export async function requireBwrap(config: Config): Promise<Bwrap> {
  const bwrap = await chooseBwrap(config);
  if (bwrap !== null) return bwrap;
  const how = "`rolloutd doctor` says how to get one";
  const seen = await bwrapsSeen(config);
  if (config.bwrapPath !== null) {
    const why = whyNot(config.bwrapPath, seen);
    throw new StartError(
      `${config.origins.bwrap} ${config.bwrapPath}: ${why}; accepted: bubblewrap >= ${BWRAP_VERSION_MIN}, ${how}`,
    );
  }
  const old = seen.map(({ path, version }) => `${path} is ${version}`).join(", ");
  throw new StartError(
    `no bubblewrap >= ${BWRAP_VERSION_MIN} was found${old === "" ? "" : ` (${old})`}; ${how}, --bwrap names one`,
  );
}

/** What is there of bubblewrap, new enough or not. */
export function bwrapsSeen({ bwrapPath, cacheDirs }: Pick<Config, "bwrapPath" | "cacheDirs">): Promise<Bwrap[]> {
  return versionsOf(bwrapPath === null ? bwrapCandidates(searchPath().join(":"), cacheDirs) : [bwrapPath]);
}

/** Why the bubblewrap that was named cannot be used, given those that answered with a version. */
export function whyNot(path: string, seen: readonly Bwrap[]): string {
  const answered = seen.find((bwrap) => bwrap.path === path);
  if (answered !== undefined) return `is ${answered.version}, which is too old`;
  return existsSync(path) ? "is no bubblewrap that can be run" : "there is no such file";
}
