import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { cacheDir, SYSTEM_CACHE } from "../../../scripts/setup/cache.ts";
import { runCommand } from "../../../scripts/setup/command.ts";

/** transformers and its engine render; trl brings the chat templates of the families that no package has beside its tokenizer. */
const PINNED = ["transformers==5.24.0", "tokenizers==0.23.3", "jinja2==3.1.6"] as const;
const TEMPLATES = "trl==1.16.0";
/** Its source package holds llama.cpp with its folder of templates; only those are kept of it. */
const MORE_TEMPLATES = "llama-cpp-python==0.3.36";
const BUILD = "scikit-build-core==1.1.2";
const LLAMA_CPP = "llama.cpp/";
const INSTALL_MS = 600_000;

const Answer = z.union([
  z.strictObject({ ids: z.array(z.int()), text: z.string() }),
  z.strictObject({ refused: z.string() }),
]);
export type Answer = z.infer<typeof Answer>;

export interface ReferenceFamily {
  folder: string;
  /** JSON texts, so that numbers reach Python as they were written. */
  variables: string;
  cells: readonly { messages: string; tools: string }[];
}

/** Python's packages for the comparison, installed once in the cache. */
export interface Reference {
  /** The text of a chat template of trl or, after `llama.cpp/`, of llama.cpp. */
  template(name: string): Promise<string>;
  /** Names of all of them that are meant for sampling; trl's variants for training are not. */
  templates(): string[];
  render(families: readonly ReferenceFamily[]): Promise<Answer[][]>;
}

/** Installs the packages when they are not there (a minute). Throws with pip's words. */
export async function openReference(): Promise<Reference> {
  const python = (await runCommand(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])).trim();
  const name = [...PINNED, TEMPLATES, MORE_TEMPLATES].map((pin) => pin.replace("==", "-")).join("+");
  const places = [cacheDir(), SYSTEM_CACHE].map((cache) => join(cache, `tokens-reference-python${python}-${name}`));
  const [own = ""] = places;
  const folder = places.find((place) => existsSync(place)) ?? own;
  if (!existsSync(folder)) await install(folder);
  return {
    template: (file) => Bun.file(join(folder, file.startsWith(LLAMA_CPP) ? file : `trl/chat_templates/${file}`)).text(),
    templates() {
      const trl = [...new Bun.Glob("*.jinja").scanSync(join(folder, "trl/chat_templates"))];
      const more = [...new Bun.Glob("*.jinja").scanSync(join(folder, LLAMA_CPP))].map((file) => LLAMA_CPP + file);
      return [...trl.filter((file) => !file.endsWith("_training.jinja")), ...more].sort();
    },
    async render(families) {
      const child = Bun.spawn(["python3", join(import.meta.dir, "reference.py")], {
        env: { ...process.env, PYTHONPATH: folder, PYTHONDONTWRITEBYTECODE: "1" },
        stdin: new Blob([documentOf(families)]),
        stdout: "pipe",
        stderr: "pipe",
      });
      const [stdout, stderr, code] = await Promise.all([
        new Response(child.stdout).text(),
        new Response(child.stderr).text(),
        child.exited,
      ]);
      if (code !== 0) throw new Error(`the reference ended with ${code}: ${stderr.slice(-2_000)}`);
      return z.array(z.array(Answer)).parse(JSON.parse(stdout));
    },
  };
}

function documentOf(families: readonly ReferenceFamily[]): string {
  const shown = families.map(({ folder, variables, cells }) => {
    const list = cells.map(({ messages, tools }) => `{"messages":${messages},"tools":${tools}}`);
    return `{"folder":${JSON.stringify(folder)},"variables":${variables},"cells":[${list.join(",")}]}`;
  });
  return `{"families":[${shown.join(",")}]}`;
}

async function install(folder: string): Promise<void> {
  mkdirSync(cacheDir(), { recursive: true });
  const made = mkdtempSync(`${folder}-`);
  try {
    const pip = ["python3", "-m", "pip", "install", "--quiet", "--target", join(made, "packages")];
    await runCommand([...pip, ...PINNED], { msMax: INSTALL_MS });
    await runCommand([...pip, "--no-deps", TEMPLATES], { msMax: INSTALL_MS });
    await takeLlamaCppTemplates(made);
    // In one step: two test runs at once both get a whole folder.
    if (!existsSync(folder)) renameSync(join(made, "packages"), folder);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}

/** pip looks into a source package before it gives it out, for which it needs the package's build tool. */
async function takeLlamaCppTemplates(made: string): Promise<void> {
  const tools = join(made, "tools");
  await runCommand(["python3", "-m", "pip", "install", "--quiet", "--target", tools, BUILD], { msMax: INSTALL_MS });
  const download = ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"];
  await runCommand([...download, "--no-build-isolation", "--dest", made, MORE_TEMPLATES], {
    msMax: INSTALL_MS,
    env: { PYTHONPATH: tools },
  });
  const [archive = ""] = [...new Bun.Glob("llama_cpp_python-*.tar.gz").scanSync(made)];
  const target = join(made, "packages", LLAMA_CPP);
  mkdirSync(target);
  const pattern = "*/vendor/llama.cpp/models/templates/*.jinja";
  const extract = ["tar", "--extract", "--gzip", "--file", join(made, archive), "--directory", target];
  await runCommand([...extract, "--strip-components", "5", "--wildcards", pattern]);
}
