import { existsSync } from "node:fs";
import { BWRAP_VERSION_MIN, type Bwrap, bwrapCandidates, findBwrap } from "../../src/sandbox/find-bwrap.ts";
import { buildBubblewrap } from "./build-bubblewrap.ts";
import { cacheDir, SYSTEM_CACHE } from "./cache.ts";
import { exitWithMessage, runCommand, step } from "./command.ts";
import { DEBIAN_KEYRING } from "./isolated-apt.ts";

/** What the build and the sandboxes use, with the package that brings it. */
const PROGRAMS: Readonly<Record<string, string>> = {
  "/usr/bin/gcc": "gcc",
  "/usr/include/sys/capability.h": "libcap-dev",
  "/usr/bin/xz": "xz-utils",
  "/usr/bin/unshare": "util-linux",
  "/usr/bin/setpriv": "util-linux",
  "/bin/bash": "bash",
  "/usr/bin/python3": "python3",
  [DEBIAN_KEYRING]: "debian-archive-keyring",
};
/** Linked against this machine's libraries: it stays on this machine. */
const ORDINARY = { prefix: "bubblewrap", compiler: "gcc", flags: () => Promise.resolve([]) };
const BUILD_ONLY = new Set(["gcc", "libcap-dev", "xz-utils", "debian-archive-keyring"]);

/** A bwrap that is new enough, on PATH or in a cache; null when there is none. Changes nothing. */
export function installedBubblewrap(cache: string): Promise<Bwrap | null> {
  // A cache that is named is the only one that the program looks into, too.
  const caches = process.env.ROLLOUTD_CACHE ? [cache] : [...new Set([cache, SYSTEM_CACHE])];
  return findBwrap(bwrapCandidates(process.env.PATH ?? "/usr/bin:/bin", caches));
}

/**
 * Gives a bubblewrap of at least `BWRAP_VERSION_MIN`: the one that is there, else, as root, builds it into
 * `cache/bubblewrap-VERSION/bwrap` and installs the system parts that sandboxes need. Safe to call again and from
 * two processes at once. As an ordinary user it throws with the command to run when something is missing.
 */
export async function ensureBubblewrap(cache: string, report: (line: string) => void): Promise<Bwrap> {
  const found = await installedBubblewrap(cache);
  const root = process.getuid?.() === 0;
  const absent = missingPackages().filter((name) => found === null || !BUILD_ONLY.has(name));
  if (found !== null && absent.length === 0) return found;
  if (!root && absent.length > 0) throw new Error(howToInstall(found, absent));
  if (absent.length > 0) await step(`packages ${absent.join(" ")}`, report, () => aptInstall(absent));
  if (found !== null) return found;
  const built = await step("bubblewrap from source", report, () => buildBubblewrap(cache, ORDINARY));
  const checked = await findBwrap([built]);
  if (checked === null) throw new Error(`${built} was built, but it is not bubblewrap ${BWRAP_VERSION_MIN} or newer`);
  return checked;
}

function missingPackages(): string[] {
  const names = Object.entries(PROGRAMS).filter(([file]) => !existsSync(file));
  return [...new Set(names.map(([, name]) => name))];
}

function howToInstall(found: Bwrap | null, absent: readonly string[]): string {
  const runtime = absent.filter((name) => !BUILD_ONLY.has(name));
  const parts = [...(found === null ? [`bubblewrap >= ${BWRAP_VERSION_MIN}`] : []), ...runtime];
  return `${parts.join(", ")} missing, and only root can install it. Run once, in this folder:\n  sudo npx --yes bun@1.4.4 scripts/setup/bubblewrap.ts`;
}

/** Installs Debian packages without what they recommend; for root. */
export async function aptInstall(names: readonly string[]): Promise<void> {
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const install = ["apt-get", "install", "--yes", "--no-install-recommends", ...names];
  await runCommand(install, { env }).catch(async () => {
    // A fresh container has no package lists yet, and old lists name files that are gone.
    await runCommand(["apt-get", "update"], { env });
    await runCommand(install, { env });
  });
}

if (import.meta.main) {
  const bwrap = await ensureBubblewrap(cacheDir(), (line) => console.log(line)).catch(exitWithMessage);
  console.log(`bubblewrap ${bwrap.version}: ${bwrap.path}`);
}
