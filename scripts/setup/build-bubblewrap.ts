import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BWRAP_VERSION_MIN } from "../../src/sandbox/find-bwrap.ts";
import { readAptSources, securityMirror } from "../../src/sandbox/images/apt-sources.ts";
import { runCommand } from "./command.ts";
import { fetchWithApt } from "./isolated-apt.ts";

/** The suite whose source is built: Debian 12's own package is older than the fix of CVE-2026-87766. */
const SOURCE_SUITE = "trixie-security";

/** The upstream archive that a build came from; it lies beside the program. */
export const SOURCE_ARCHIVE = "source.tar.xz";

export interface BubblewrapBuild {
  /** The build goes to `cache/PREFIX-VERSION/`. */
  prefix: string;
  compiler: string;
  /** What the compiler is told besides the sources and `-lcap`; gets a folder of its own to put things in. */
  flags: (work: string) => Promise<readonly string[]>;
}

/**
 * Builds `bwrap` from the distribution's source, which apt checks, and gives its path below `cache`. Safe from two
 * processes at once; leaves nothing behind when it fails.
 */
export async function buildBubblewrap(cache: string, build: BubblewrapBuild): Promise<string> {
  await mkdir(cache, { recursive: true, mode: 0o755 });
  const work = await mkdtemp(join(cache, "build-"));
  try {
    await chmod(work, 0o755);
    const { version, archive } = await fetchSource(work);
    const source = join(work, "source");
    await writeFile(join(source, "config.h"), `#define PACKAGE_STRING "bubblewrap ${version}"\n`);
    const files = (await readdir(source)).filter((name) => name.endsWith(".c"));
    const ready = join(work, "ready");
    await mkdir(ready, { mode: 0o755 });
    const flags = await build.flags(work);
    const options = ["-O2", "-D_GNU_SOURCE", "-I.", ...flags];
    await runCommand([build.compiler, ...options, ...files, "-lcap", "-o", join(ready, "bwrap")], { cwd: source });
    await chmod(join(ready, "bwrap"), 0o755);
    await rename(archive, join(ready, SOURCE_ARCHIVE));
    const target = join(cache, `${build.prefix}-${version}`);
    await rename(ready, target).catch((error: unknown) => {
      // Another set-up came first: its build is as good.
      if (!existsSync(join(target, "bwrap"))) throw error;
    });
    return join(target, "bwrap");
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Fetches and unpacks the upstream source into `work/source`. */
async function fetchSource(work: string): Promise<{ version: string; archive: string }> {
  const mirror = securityMirror(readAptSources());
  if (mirror === null) {
    throw new Error(
      `no Debian mirror among the files of /etc/apt: install bubblewrap >= ${BWRAP_VERSION_MIN} and put it on PATH`,
    );
  }
  const sources = [`deb-src ${mirror} ${SOURCE_SUITE} main`];
  await fetchWithApt({ work, sources, architecture: null }, ["source", "--download-only", "bubblewrap"]);
  const archive = (await readdir(work)).find((name) => name.endsWith(".orig.tar.xz"));
  const version = /^bubblewrap_(.+)\.orig\.tar\.xz$/.exec(archive ?? "")?.[1];
  if (archive === undefined || version === undefined) {
    throw new Error(`${SOURCE_SUITE} gave no upstream source of bubblewrap`);
  }
  await mkdir(join(work, "source"));
  await runCommand(["tar", "--extract", "--strip-components=1", "--file", archive, "--directory", "source"], {
    cwd: work,
  });
  return { version, archive: join(work, archive) };
}
