import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BWRAP_VERSION_MIN, type Bwrap, bwrapCandidates, findBwrap } from "../../src/sandbox/find-bwrap.ts";
import { readAptSources, securityMirror } from "./apt-sources.ts";
import { cacheDir, SYSTEM_CACHE } from "./cache.ts";
import { runCommand, step } from "./command.ts";

/** The suite whose source is built: Debian 12's own package is older than the fix of CVE-2026-87766. */
const SOURCE_SUITE = "trixie-security";
const KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** What the build and the sandboxes use, with the package that brings it. */
const PROGRAMS: Readonly<Record<string, string>> = {
  "/usr/bin/gcc": "gcc",
  "/usr/include/sys/capability.h": "libcap-dev",
  "/usr/bin/xz": "xz-utils",
  "/usr/bin/unshare": "util-linux",
  "/usr/bin/setpriv": "util-linux",
  "/bin/bash": "bash",
  "/usr/bin/python3": "python3",
  [KEYRING]: "debian-archive-keyring",
};
const BUILD_ONLY = new Set(["gcc", "libcap-dev", "xz-utils", "debian-archive-keyring"]);

/** A bwrap that is new enough, on PATH or in a cache; null when there is none. Changes nothing. */
export function installedBubblewrap(cache: string): Promise<Bwrap | null> {
  const caches = [...new Set([cache, SYSTEM_CACHE])];
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
  if (!root) throw new Error(howToInstall(found, absent));
  if (absent.length > 0) await step(`packages ${absent.join(" ")}`, report, () => aptInstall(absent));
  if (found !== null) return found;
  const built = await step("bubblewrap from source", report, () => buildBubblewrap(cache));
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

async function aptInstall(names: readonly string[]): Promise<void> {
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  const install = ["apt-get", "install", "--yes", "--no-install-recommends", ...names];
  await runCommand(install, { env }).catch(async () => {
    // A fresh container has no package lists yet, and old lists name files that are gone.
    await runCommand(["apt-get", "update"], { env });
    await runCommand(install, { env });
  });
}

async function buildBubblewrap(cache: string): Promise<string> {
  await mkdir(cache, { recursive: true, mode: 0o755 });
  const work = await mkdtemp(join(cache, "build-"));
  try {
    await chmod(work, 0o755);
    const version = await fetchSource(work);
    const source = join(work, "source");
    await writeFile(join(source, "config.h"), `#define PACKAGE_STRING "bubblewrap ${version}"\n`);
    const files = (await readdir(source)).filter((name) => name.endsWith(".c"));
    const ready = join(work, "ready");
    await mkdir(ready, { mode: 0o755 });
    await runCommand(["gcc", "-O2", "-D_GNU_SOURCE", "-I.", ...files, "-lcap", "-o", join(ready, "bwrap")], {
      cwd: source,
    });
    await chmod(join(ready, "bwrap"), 0o755);
    const target = join(cache, `bubblewrap-${version}`);
    await rename(ready, target).catch((error: unknown) => {
      // Another set-up came first: its build is as good.
      if (!existsSync(join(target, "bwrap"))) throw error;
    });
    return join(target, "bwrap");
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Fetches and unpacks the upstream source into `work/source`; apt checks its signature. Gives the version. */
async function fetchSource(work: string): Promise<string> {
  const mirror = securityMirror(readAptSources());
  if (mirror === null) {
    throw new Error(
      `no Debian mirror among the files of /etc/apt: install bubblewrap >= ${BWRAP_VERSION_MIN} and put it on PATH`,
    );
  }
  const list = join(work, "sources.list");
  await writeFile(list, `deb-src [signed-by=${KEYRING}] ${mirror} ${SOURCE_SUITE} main\n`);
  await mkdir(join(work, "lists", "partial"), { recursive: true });
  await mkdir(join(work, "cache", "archives", "partial"), { recursive: true });
  const settings = {
    "Dir::Etc::SourceList": list,
    "Dir::Etc::SourceParts": "-",
    "Dir::State::Lists": join(work, "lists"),
    "Dir::Cache": join(work, "cache"),
    "APT::Sandbox::User": "root",
  };
  const options = Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
  await runCommand(["apt-get", ...options, "update"], { cwd: work });
  await runCommand(["apt-get", ...options, "source", "--download-only", "bubblewrap"], { cwd: work });
  const archive = (await readdir(work)).find((name) => name.endsWith(".orig.tar.xz"));
  const version = archive === undefined ? null : /^bubblewrap_(.+)\.orig\.tar\.xz$/.exec(archive)?.[1];
  if (archive === undefined || version === null || version === undefined) {
    throw new Error(`${SOURCE_SUITE} gave no upstream source of bubblewrap`);
  }
  await mkdir(join(work, "source"));
  await runCommand(["tar", "--extract", "--strip-components=1", "--file", archive, "--directory", "source"], {
    cwd: work,
  });
  return version;
}

if (import.meta.main) {
  const bwrap = await ensureBubblewrap(cacheDir(), (line) => console.log(line));
  console.log(`bubblewrap ${bwrap.version}: ${bwrap.path}`);
}
