import { cacheDir, SYSTEM_CACHE } from "../../scripts/setup/cache.ts";
import { BWRAP_VERSION_MIN, bwrapCandidates, findBwrap } from "../../src/sandbox/find-bwrap.ts";

let found: string | undefined;

/** The bubblewrap that tests use: `ROLLOUTD_BWRAP`, else PATH, else the cache. Throws with how to get one. */
export async function testBwrap(): Promise<string> {
  found ??= process.env.ROLLOUTD_BWRAP;
  if (found !== undefined) return found;
  const candidates = bwrapCandidates(process.env.PATH ?? "", [cacheDir(), SYSTEM_CACHE]);
  const bwrap = await findBwrap(candidates);
  if (bwrap === null) throw new Error(`no bubblewrap >= ${BWRAP_VERSION_MIN}: bun scripts/setup/bubblewrap.ts`);
  found = bwrap.path;
  return found;
}

/** The uid of sandboxes in tests: root's server drops to it, an ordinary user's stays who it is. */
export const TEST_SANDBOX_UID = process.getuid?.() === 0 ? 61_234 : null;
