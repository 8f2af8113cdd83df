import { homedir } from "node:os";
import { join } from "node:path";

/** Root's cache: other users reach what was built there, which a folder below /root is not. */
export const SYSTEM_CACHE = "/var/cache/rolloutd";

/** Where set-up keeps what it downloads and builds, outside the clone: `ROLLOUTD_CACHE`, else by who runs it. */
export function cacheDir(): string {
  const named = process.env.ROLLOUTD_CACHE;
  if (named !== undefined && named !== "") return named;
  if (process.getuid?.() === 0) return SYSTEM_CACHE;
  return join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "rolloutd");
}
