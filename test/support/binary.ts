import { chmodSync, chownSync, cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureStaticBubblewrap } from "../../scripts/build/static-bubblewrap.ts";
import { build } from "../../scripts/build.ts";
import { cacheDir } from "../../scripts/setup/cache.ts";
import { assert } from "../../src/errors.ts";

/** Programs that a machine has; those of another place, and any bubblewrap, are hidden. */
const TOOLS = ["/usr/bin", "/bin"];

/** A binary as it is released, and why there is none when this machine cannot build one. */
export async function buildForTests(): Promise<{ path: string; missing: null } | { path: null; missing: string }> {
  assert(process.arch === "x64" || process.arch === "arm64", "binaries are for x64 and arm64");
  try {
    const bwrap = await ensureStaticBubblewrap(cacheDir(), process.arch, () => {});
    const out = mkdtempSync(join(tmpdir(), "rolloutd-build-"));
    return { path: await build(`bun-linux-${process.arch}`, out, bwrap), missing: null };
  } catch (error) {
    return { path: null, missing: error instanceof Error ? error.message : String(error) };
  }
}

/** One user's empty folder with nothing but the binary, and a PATH without bubblewrap. */
export interface Home extends Disposable {
  folder: string;
  data: string;
  /** The binary's argv for `args`, run as the user; takes `env` for its environment. */
  command(...args: string[]): string[];
  env: Record<string, string>;
  run(...args: string[]): Promise<{ out: string; err: string; code: number }>;
}

/** A place for the user `uid`, which is this process's own or, when that is root, any. */
export function aHome(binary: string, uid: number): Home {
  const folder = mkdtempSync(join(tmpdir(), "rolloutd-home-"));
  chmodSync(folder, 0o755);
  const [tools, work] = ["tools", "work"].map((name) => join(folder, name)) as [string, string];
  mkdirSync(tools);
  for (const place of TOOLS) linkPrograms(place, tools);
  mkdirSync(work);
  cpSync(binary, join(work, "rolloutd"));
  if (uid !== process.getuid?.()) for (const path of [folder, work]) chownSync(path, uid, uid);
  const data = join(work, "data");
  const env = { PATH: tools, HOME: work, ROLLOUTD_CACHE: join(work, "no-cache"), ROLLOUTD_DATA: data };
  const drop = uid === process.getuid?.() ? [] : ["/usr/bin/setpriv", `--reuid=${uid}`, `--regid=${uid}`];
  const command = (...args: string[]) => [
    ...drop,
    ...(drop.length > 0 ? ["--clear-groups", "--"] : []),
    join(work, "rolloutd"),
    ...args,
  ];
  return {
    folder: work,
    data,
    command,
    env,
    async run(...args) {
      const child = Bun.spawn(command(...args), { cwd: work, env, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
      const [out = "", err = ""] = await Promise.all(
        [child.stdout, child.stderr].map((pipe) => new Response(pipe).text()),
      );
      return { out, err, code: await child.exited };
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function linkPrograms(from: string, to: string): void {
  const there = new Set(readdirSync(to));
  for (const name of readdirSync(from)) {
    if (name !== "bwrap" && !there.has(name)) symlinkSync(join(from, name), join(to, name));
  }
}
