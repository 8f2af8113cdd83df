import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { cacheDir, SYSTEM_CACHE } from "../../../scripts/setup/cache.ts";
import { runCommand } from "../../../scripts/setup/command.ts";

/** transformers and its engine render; trl brings the chat templates of the families that no package has beside its tokenizer. */
const PINNED = ["transformers==5.24.0", "tokenizers==0.23.3", "jinja2==3.1.6"] as const;
const TEMPLATES = "trl==1.16.0";
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
  /** The text of a chat template of trl. */
  template(name: string): Promise<string>;
  render(families: readonly ReferenceFamily[]): Promise<Answer[][]>;
}

/** Installs the packages when they are not there (a minute). Throws with pip's words. */
export async function openReference(): Promise<Reference> {
  const python = (await runCommand(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])).trim();
  const name = [...PINNED, TEMPLATES].map((pin) => pin.replace("==", "-")).join("+");
  const places = [cacheDir(), SYSTEM_CACHE].map((cache) => join(cache, `tokens-reference-python${python}-${name}`));
  const [own = ""] = places;
  const folder = places.find((place) => existsSync(place)) ?? own;
  if (!existsSync(folder)) await install(folder);
  return {
    template: (file) => Bun.file(join(folder, "trl/chat_templates", file)).text(),
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
    // In one step: two test runs at once both get a whole folder.
    if (!existsSync(folder)) renameSync(join(made, "packages"), folder);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}
