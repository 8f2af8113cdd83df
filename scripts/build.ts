/**
 * `bun run build [--target bun-linux-arm64] [--out dist] [--without-bubblewrap]`: one executable with all that rolloutd
 * needs, `dist/rolloutd`, or `dist/rolloutd-linux-arm64` when it is for another machine; beside it the source of the
 * bubblewrap inside and SHA256SUMS.
 */
import { copyFile, mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { readBuildInfo } from "./build/build-info.ts";
import { compileBinary, TARGETS, type Target } from "./build/compile.ts";
import { type Architecture, ensureStaticBubblewrap, type StaticBubblewrap } from "./build/static-bubblewrap.ts";
import { cacheDir } from "./setup/cache.ts";
import { step } from "./setup/command.ts";

const MIB = 1 << 20;
const report = (line: string) => console.log(line);

/** Builds for `target` into the folder `out`; gives the executable's path. Throws with what is missing. */
export async function build(target: Target, out: string, bwrap: StaticBubblewrap | null): Promise<string> {
  const isNative = target === nativeTarget();
  const outfile = join(out, isNative ? "rolloutd" : `rolloutd-${target.slice("bun-".length)}`);
  await mkdir(out, { recursive: true });
  const info = await readBuildInfo(bwrap?.version ?? null);
  await step(`${outfile}, commit ${info.commit}`, report, () =>
    compileBinary({ target, outfile, info, bwrap: bwrap?.path ?? null }),
  );
  // The maps are inside too; the Workers' would overwrite each other.
  for (const name of await readdir(out)) if (name.endsWith(".map")) await rm(join(out, name));
  if (bwrap !== null) await copyFile(bwrap.source, join(out, `bubblewrap_${bwrap.version}.orig.tar.xz`));
  return outfile;
}

/** The bubblewrap for `target`; null with the reason reported when it cannot be built here for another machine. */
async function bubblewrapFor(target: Target): Promise<StaticBubblewrap | null> {
  const architecture: Architecture = target === "bun-linux-arm64" ? "arm64" : "x64";
  try {
    return await ensureStaticBubblewrap(cacheDir(), architecture, report);
  } catch (error) {
    if (target === nativeTarget()) throw error;
    report(`no bubblewrap inside: ${error instanceof Error ? error.message : String(error)}`);
    return null;
  }
}

function nativeTarget(): string {
  return `bun-${process.platform}-${process.arch}`;
}

/** SHA256SUMS over what lies in `out`, for `sha256sum --check`. */
async function writeSums(out: string): Promise<void> {
  const names = (await readdir(out)).filter((name) => name !== "SHA256SUMS").sort();
  const lines: string[] = [];
  for (const name of names) {
    const path = join(out, name);
    if ((await stat(path)).isFile()) lines.push(`${Bun.SHA256.hash(await readFile(path), "hex")}  ${name}\n`);
  }
  await writeFile(join(out, "SHA256SUMS"), lines.join(""));
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      target: { type: "string", default: nativeTarget() },
      out: { type: "string", default: "dist" },
      "without-bubblewrap": { type: "boolean", default: false },
    },
  });
  const target = TARGETS.find((name) => name === values.target);
  if (target === undefined) {
    console.error(`--target ${values.target} is not one of ${TARGETS.join(", ")}`);
    process.exit(2);
  }
  try {
    const out = resolve(values.out);
    const bwrap = values["without-bubblewrap"] ? null : await bubblewrapFor(target);
    const outfile = await build(target, out, bwrap);
    await writeSums(out);
    report(
      `${outfile}: ${((await stat(outfile)).size / MIB).toFixed(1)} MiB, bubblewrap ${bwrap?.version ?? "not"} inside`,
    );
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    process.exit(1);
  }
}
