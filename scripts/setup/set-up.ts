import { existsSync } from "node:fs";
import { join } from "node:path";
import { ensureBubblewrap } from "./bubblewrap.ts";
import { cacheDir } from "./cache.ts";
import { exitWithMessage, runCommand } from "./command.ts";
import { ensureImagePrograms } from "./image-programs.ts";
import { ensureLlamaCpp, ensureModel, type ModelFiles, type Report } from "./model.ts";

const ROOT = join(import.meta.dir, "../..");

/** What set-up made ready. */
export interface Ready {
  bwrap: string;
  model: ModelFiles;
  python: string;
}

/** `setUp` for a script, which ends with the message when something stops it. */
export async function setUpOrExit(report: Report): Promise<Ready> {
  return await setUp(report).catch(exitWithMessage);
}

/**
 * Makes everything ready that the demo and the tests need: packages, bubblewrap, llama.cpp and the small model. Steps
 * that are done already cost a look. Each is reported with its time; the first that fails throws with what to do.
 */
export async function setUp(report: Report): Promise<Ready> {
  const cache = cacheDir();
  report(`downloads and builds go to ${cache}`);
  await timed(report, installPackages, () => "packages of package.json");
  const { path: bwrap } = await timed(report, () => ensureBubblewrap(cache, report), describeBwrap);
  await timed(
    report,
    () => ensureImagePrograms(report),
    (missing) => (missing.length === 0 ? "what images are built with" : "what can be"),
  );
  const { python } = await timed(
    report,
    () => ensureLlamaCpp(cache, report),
    () => "llama.cpp",
  );
  const model = await timed(
    report,
    () => ensureModel(cache, report),
    () => "SmolLM2-135M-Instruct",
  );
  return { bwrap, model, python };
}

async function timed<T>(report: Report, work: () => Promise<T>, describe: (made: T) => string): Promise<T> {
  const startMs = performance.now();
  const made = await work();
  report(`${describe(made)} is ready (${((performance.now() - startMs) / 1000).toFixed(1)} s)`);
  return made;
}

/** Installs what package.json names into the clone; a look when it is there. */
export async function installPackages(): Promise<void> {
  await runCommand([process.execPath, "install", "--frozen-lockfile"], { cwd: ROOT });
  if (!existsSync(join(ROOT, "node_modules/hono"))) throw new Error("bun install ended well but installed nothing");
}

function describeBwrap({ path, version }: { path: string; version: string }): string {
  return `bubblewrap ${version} at ${path}`;
}
