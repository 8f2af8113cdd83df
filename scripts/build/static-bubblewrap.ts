import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { BWRAP_VERSION_MIN, compareVersions } from "../../src/sandbox/find-bwrap.ts";
import { readAptSources } from "../../src/sandbox/images/apt-sources.ts";
import { buildBubblewrap, SOURCE_ARCHIVE } from "../setup/build-bubblewrap.ts";
import { SYSTEM_CACHE } from "../setup/cache.ts";
import { runCommand, step } from "../setup/command.ts";
import { fetchWithApt } from "../setup/isolated-apt.ts";

/** A bwrap that needs no library of the machine it runs on. */
export interface StaticBubblewrap {
  path: string;
  version: string;
  /** The source that it was built from, to hand out with it. */
  source: string;
}

export type Architecture = "x64" | "arm64";

interface Toolchain {
  compiler: string;
  /** What must be there, with the Debian package that brings it. */
  needs: Readonly<Record<string, string>>;
}

const TOOLCHAINS: Readonly<Record<Architecture, { own: Toolchain; cross: Toolchain | null }>> = {
  x64: { own: ownToolchain("x86_64-linux-gnu"), cross: null },
  arm64: {
    own: ownToolchain("aarch64-linux-gnu"),
    cross: {
      compiler: "aarch64-linux-gnu-gcc",
      needs: {
        "/usr/bin/aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
        "/usr/aarch64-linux-gnu/lib/libc.a": "libc6-dev-arm64-cross",
        "/usr/bin/xz": "xz-utils",
      },
    },
  },
};

function ownToolchain(triplet: string): Toolchain {
  return {
    compiler: "gcc",
    needs: {
      "/usr/bin/gcc": "gcc",
      [`/usr/lib/${triplet}/libc.a`]: "libc6-dev",
      [`/usr/lib/${triplet}/libcap.a`]: "libcap-dev",
      "/usr/bin/xz": "xz-utils",
    },
  };
}

/**
 * Gives the static bubblewrap for `architecture`: the newest one in `cache` or in root's, else builds it into `cache`.
 * Throws with the packages to install when this machine cannot build it.
 */
export async function ensureStaticBubblewrap(
  cache: string,
  architecture: Architecture,
  report: (line: string) => void,
): Promise<StaticBubblewrap> {
  const there = cachedStaticBubblewrap(cache, architecture);
  if (there !== null) return there;
  const isCross = architecture !== process.arch;
  const toolchain = isCross ? TOOLCHAINS[architecture].cross : TOOLCHAINS[architecture].own;
  if (toolchain === null) throw new Error(`no cross compiler for ${architecture} is known here`);
  const absent = Object.entries(toolchain.needs).filter(([file]) => !existsSync(file));
  if (absent.length > 0) {
    const names = [...new Set(absent.map(([, name]) => name))].join(" ");
    throw new Error(`a static bubblewrap for ${architecture} needs: apt-get install ${names}`);
  }
  const { compiler } = toolchain;
  const flags = async (work: string) => ["-static", "-s", ...(isCross ? await crossLibcap(work, architecture) : [])];
  const built = await step(`static bubblewrap for ${architecture}`, report, () =>
    buildBubblewrap(cache, { prefix: prefixOf(architecture), compiler, flags }),
  );
  return describe(dirname(built), architecture);
}

/** The newest static bubblewrap for `architecture` that was built before; null when there is none. Changes nothing. */
export function cachedStaticBubblewrap(cache: string, architecture: Architecture): StaticBubblewrap | null {
  const prefix = `${prefixOf(architecture)}-`;
  const found = [...new Set([cache, SYSTEM_CACHE])]
    .flatMap((folder) => (existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []))
    .filter((folder) => folder.includes(`/${prefix}`) && existsSync(join(folder, "bwrap")))
    .map((folder) => describe(folder, architecture))
    .filter(({ version }) => compareVersions(version, BWRAP_VERSION_MIN) >= 0)
    .sort((a, b) => compareVersions(b.version, a.version));
  return found[0] ?? null;
}

function describe(folder: string, architecture: Architecture): StaticBubblewrap {
  const version = folder.slice(folder.lastIndexOf(`/${prefixOf(architecture)}-`) + prefixOf(architecture).length + 2);
  return { path: join(folder, "bwrap"), version, source: join(folder, SOURCE_ARCHIVE) };
}

/** Not `bubblewrap-VERSION`: a server looks for that name, and would run one that is for another machine. */
function prefixOf(architecture: Architecture): string {
  return `static-bubblewrap-${architecture}`;
}

/** libcap's archive and headers for the other architecture, from the suite whose cross compiler is installed. */
async function crossLibcap(work: string, architecture: Architecture): Promise<readonly string[]> {
  const own = readAptSources().find(({ uri, suite }) => /\/debian\/?$/.test(uri) && !suite.includes("-"));
  if (own === undefined) throw new Error("no Debian mirror among the files of /etc/apt");
  const fetched = await mkdtemp(join(work, "libcap-"));
  const sources = [`deb ${own.uri} ${own.suite} main`];
  await fetchWithApt({ work: fetched, sources, architecture }, ["download", "libcap-dev"]);
  const archive = readdirSync(fetched).find((name) => name.endsWith(".deb"));
  if (archive === undefined) throw new Error(`${own.suite} gave no libcap-dev for ${architecture}`);
  const root = join(fetched, "root");
  await mkdir(root);
  await runCommand(["dpkg-deb", "--extract", join(fetched, archive), root]);
  await rm(join(fetched, "lists"), { recursive: true, force: true });
  return [`-I${root}/usr/include`, `-L${root}/usr/lib/aarch64-linux-gnu`];
}
