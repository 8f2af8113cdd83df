import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildContext, type Built, DEFAULT_PATH } from "./build-context.ts";
import { runBuildStep } from "./build-step.ts";
import { hostView } from "./confine.ts";
import { ImageError } from "./image-error.ts";
import type { Recipe } from "./recipe.ts";

export const LAYER_STEPS = ["install Python packages"] as const;

const PYTHON = "/usr/bin/python3";
/** Where pip may lie: as a package, or as the wheel that `python3-venv` brings. */
const PIP_FOLDERS = ["/usr/lib/python3/dist-packages/pip", "/usr/lib/python3/site-packages/pip"];
const PIP_WHEELS = "/usr/share/python-wheels";
const PIP_SETTINGS = ["/etc/pip.conf", "/etc/xdg/pip"];
const PIP_OPTIONS = ["--no-input", "--no-cache-dir", "--ignore-installed", "--progress-bar", "off"];

/**
 * Installs pip's packages for this machine's own python3 into a layer that sandboxes see at `/usr/local`, where that python3
 * looks for packages by itself. pip and what it builds see `/usr`, the network and the layer, and no one's data.
 */
export async function buildLayer({ host, draft, signal, report }: BuildContext, recipe: Recipe): Promise<Built> {
  const layer = draft.makeFolder("layer", host.sandboxUid);
  const work = draft.makeFolder("work", host.sandboxUid);
  const [step] = LAYER_STEPS;
  report(step);
  if (recipe.pipLock !== null) writeFileSync(join(work, "pip.lock"), recipe.pipLock, { mode: 0o644 });
  const { env } = host;
  const named = Object.values(env).filter((value) => value.startsWith("/"));
  await runBuildStep(
    host,
    {
      argv: [PYTHON, "-m", "pip", "install", ...PIP_OPTIONS, ...pipPackages(recipe)],
      view: hostView({ work, shown: [...PIP_SETTINGS, ...named], mounts: ["--bind", layer, "/usr/local"] }),
      env: { ...env, ...pipPlace(), ...PIP_ENV },
      network: true,
      onLine: (line) => report(step, line),
    },
    signal,
  );
  const { uid, env: own } = recipe;
  const notes = recipe.pipLock === null ? ["without pip.lock: what the named packages need was resolved anew"] : [];
  return { contents: "layer", env: { ...own }, path: DEFAULT_PATH, uid, cwd: null, notes, unusable: null };
}

/** Arguments that name what to install: all of the lock, by hash, or what the recipe names. */
export function pipPackages({ pip, pipLock }: Recipe): string[] {
  return pipLock === null ? [...pip] : ["--require-hashes", "--no-deps", "-r", "/tmp/pip.lock"];
}

/** pip's options that older ones do not know: in the environment they are ignored. */
export const PIP_ENV = {
  // What pip compiles has the same bytes each time: debug information names a folder of chance.
  CFLAGS: "-g0",
  PIP_BREAK_SYSTEM_PACKAGES: "1",
  PIP_ROOT_USER_ACTION: "ignore",
  PIP_NO_WARN_SCRIPT_LOCATION: "1",
};

function pipPlace(): Record<string, string> {
  if (!existsSync(PYTHON)) throw missing(`${PYTHON} is missing`, "python3 python3-pip");
  if (PIP_FOLDERS.some((folder) => existsSync(folder))) return {};
  const wheels = existsSync(PIP_WHEELS) ? [...new Bun.Glob("pip-*.whl").scanSync(PIP_WHEELS)] : [];
  const [wheel] = wheels;
  if (wheel === undefined) throw missing(`${PYTHON} has no pip`, "python3-pip");
  return { PYTHONPATH: join(PIP_WHEELS, wheel) };
}

function missing(what: string, packages: string): ImageError {
  return new ImageError(
    "machine",
    `${what}; on Debian and Ubuntu: apt-get install --no-install-recommends ${packages}`,
  );
}
