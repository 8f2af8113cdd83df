import { existsSync } from "node:fs";
import { join } from "node:path";
import { ensureBubblewrap } from "./bubblewrap.ts";
import { cacheDir } from "./cache.ts";
import { runCommand } from "./command.ts";
import { ensureLlamaCpp, ensureModel, type ModelFiles } from "./model.ts";

const ROOT = join(import.meta.dir, "../..");

/** What set-up made ready. */
export interface Ready {
  bwrap: string;
  model: ModelFiles;
  python: string;
}

/**
 * Makes everything ready that the demo and the tests need: packages, bubblewrap, llama.cpp and the small model. Steps
 * that are done already cost a look. Each is reported with its time; the first that fails throws with what to do.
 */
export async function setUp(report: (line: string) => void): Promise<Ready> {
  const cache = cacheDir();
  report(`cache: ${cache}`);
  await installPackages(report);
  const { path: bwrap } = await ensureBubblewrap(cache, report);
  const { python } = await ensureLlamaCpp(cache, report);
  const model = await ensureModel(cache, report);
  return { bwrap, model, python };
}

async function installPackages(report: (line: string) => void): Promise<void> {
  const startMs = performance.now();
  await runCommand([process.execPath, "install", "--frozen-lockfile"], { cwd: ROOT });
  if (!existsSync(join(ROOT, "node_modules/hono"))) throw new Error("bun install ended well but installed nothing");
  report(`packages (${((performance.now() - startMs) / 1000).toFixed(1)} s)`);
}
