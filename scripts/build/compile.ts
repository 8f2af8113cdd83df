import { join } from "node:path";
import type { BuildInfo } from "../../src/version.ts";

const ROOT = join(import.meta.dir, "../..");
/** The program, then every Worker: a binary finds a Worker only when it was an entry point of its own. */
const ENTRY_POINTS = ["src/cli.ts", "src/store/worker.ts", "src/tokens/worker.ts"].map((path) => join(ROOT, path));

/** The only systems that rolloutd's sandboxes exist on. */
export const TARGETS = ["bun-linux-x64", "bun-linux-arm64"] as const;
export type Target = (typeof TARGETS)[number];

export interface CompileOptions {
  target: Target;
  outfile: string;
  info: BuildInfo;
  /** A static bubblewrap for the target, embedded as it is; null builds a binary without one. */
  bwrap: string | null;
}

/** Bundles the program with all it needs into one executable. Throws with the bundler's messages. */
export async function compileBinary({ target, outfile, info, bwrap }: CompileOptions): Promise<void> {
  await build({
    ...COMMON,
    minify: true,
    bytecode: true, // halves the time to start
    sourcemap: "linked",
    define: { ...COMMON.define, ROLLOUTD_BUILD: JSON.stringify(info) },
    compile: {
      target,
      outfile,
      ...(bwrap === null ? {} : { assets: [bwrap] }),
      // The folder that a user starts the server in is no place to take settings from.
      autoloadDotenv: false,
      autoloadBunfig: false,
    },
  });
}

/** Paths below node_modules that end up in the binary, relative to the checkout. */
export async function bundledModules(): Promise<string[]> {
  const { metafile } = await build({ ...COMMON, metafile: true });
  return Object.keys(metafile?.inputs ?? {}).filter((path) => path.includes("node_modules/"));
}

const COMMON = {
  entrypoints: ENTRY_POINTS,
  root: join(ROOT, "src"),
  target: "bun",
  format: "esm", // with cjs, Workers and import.meta break in a binary with bytecode
  define: { "process.env.NODE_ENV": '"production"' },
} as const;

async function build(config: Parameters<typeof Bun.build>[0]): Promise<Bun.BuildOutput> {
  const result = await Bun.build({ ...config, throw: false });
  if (result.success) return result;
  throw new Error(`the bundler failed:\n${result.logs.map(String).join("\n")}`);
}
