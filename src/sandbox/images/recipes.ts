import { existsSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import debianRecipe from "../../../sandboxes/debian/recipe.toml" with { type: "text" };
import pythonLock from "../../../sandboxes/python/pip.lock" with { type: "text" };
import pythonRecipe from "../../../sandboxes/python/recipe.toml" with { type: "text" };
import { IMAGE_LIMITS } from "../../limits.ts";
import { ImageError } from "./image-error.ts";
import { readSmallFile } from "./manifest.ts";
import { parseRecipe, type Recipe } from "./recipe.ts";

const RECIPE = "recipe.toml";
const PIP_LOCK = "pip.lock";

const BUILT_IN: Readonly<Record<string, { text: string; pipLock: string | null }>> = {
  debian: { text: debianRecipe, pipLock: null },
  python: { text: pythonRecipe, pipLock: pythonLock },
};

/** Names of the recipes that `rolloutd image build NAME` knows without a path. */
export function recipeNames(folder: string | null): string[] {
  const own =
    folder === null || !isFolder(folder) ? [] : [...new Bun.Glob(`*/${RECIPE}`).scanSync(folder)].map(dirname);
  return [...new Set([...Object.keys(BUILT_IN), ...own])].sort();
}

/** What is wrong with the folder of `--recipes`; null when nothing is, or none was named. */
export function problemOfRecipes(folder: string | null): string | null {
  return folder === null || isFolder(folder) ? null : `--recipes ${folder} is no folder`;
}

/**
 * A recipe by its name, of the user's folder before those that the program brings. Throws ImageError input when there is
 * none or it is wrong.
 */
export function findRecipe(name: string, folder: string | null): Recipe {
  const known = recipeNames(folder);
  if (known.includes(name)) {
    if (folder !== null && existsSync(join(folder, name, RECIPE))) return readRecipe(join(folder, name));
    const builtIn = BUILT_IN[name];
    if (builtIn !== undefined) return parseRecipe(name, builtIn.text, builtIn.pipLock, `the recipe ${name}`);
  }
  const missing = problemOfRecipes(folder);
  const why = missing === null ? "" : ` (${missing})`;
  throw new ImageError("input", `there is no recipe ${JSON.stringify(name)}; there are ${known.join(", ")}${why}`);
}

/** A recipe by path: its folder, or its `recipe.toml`. Its name is that of the folder. Throws ImageError input. */
export function readRecipe(path: string): Recipe {
  if (!existsSync(path)) throw new ImageError("input", `there is no ${resolve(path)}`);
  const file = resolve(isFolder(path) ? join(path, RECIPE) : path);
  if (!existsSync(file)) throw new ImageError("input", `there is no ${RECIPE} in ${resolve(path)}`);
  const text = readSmallFile(file, IMAGE_LIMITS.recipeBytesMax);
  if (text === null) {
    throw new ImageError("input", `${file} is no readable file of at most ${IMAGE_LIMITS.recipeBytesMax} bytes`);
  }
  const lockFile = join(dirname(file), PIP_LOCK);
  const pipLock = readSmallFile(lockFile, IMAGE_LIMITS.pipLockBytesMax);
  if (pipLock === null && existsSync(lockFile)) {
    throw new ImageError("input", `${lockFile} is no readable file of at most ${IMAGE_LIMITS.pipLockBytesMax} bytes`);
  }
  return parseRecipe(basename(dirname(file)), text, pipLock, file);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
