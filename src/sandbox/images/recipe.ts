import { z } from "zod";
import { IMAGE_LIMITS } from "../../limits.ts";
import { parseToml } from "../../toml.ts";
import { ImageError } from "./image-error.ts";

/** A package of pip as it stands in a recipe: exactly one version, extras allowed. */
const PIP_PINNED = /^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?==[A-Za-z0-9.!+_-]+$/;
const PIP_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9._,-]+\])?(==[A-Za-z0-9.!+_-]+)?$/;
const items = <T extends z.ZodType>(item: T) => z.array(item).max(1_000).default([]);
const command = z.string().min(1).max(16_384);

const RecipeWire = z.strictObject({
  description: z.string().max(1_000).default(""),
  base: z
    .string()
    .regex(/^(host|debian:[a-z][a-z0-9-]{0,30})$/, "accepted are `host` and `debian:SUITE`, such as debian:bookworm"),
  apt: items(z.string().regex(/^[a-z0-9][a-z0-9+.-]*$/, "is no name of a Debian package")),
  pip: items(z.string().regex(PIP_NAME, "is no name of a Python package, nor name==version")),
  run: items(command),
  env: z
    .record(
      z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "is no name of a variable"),
      z
        .string()
        .max(16_384)
        .regex(/^[^\0]*$/),
    )
    .default({}),
  uid: z.union([z.literal(0), z.literal(1000)], "accepted are 0 and 1000").default(0),
});

/** How an image is made; `pipLock` pins every package that pip installs, with hashes. */
export interface Recipe extends Readonly<z.output<typeof RecipeWire>> {
  readonly name: string;
  readonly pipLock: string | null;
}

/** Version of what builders do with a recipe: raise it when they do it differently, and images are built anew. */
const BUILDERS_VERSION = 1;
const KEY_CHARS = 32;

/** Reads `recipe.toml`. `where` stands in what ImageError input says. */
export function parseRecipe(name: string, text: string, pipLock: string | null, where: string): Recipe {
  const wrong = (what: string) => new ImageError("input", `${where}: ${what}`);
  if (text.length > IMAGE_LIMITS.recipeBytesMax) throw wrong(`is longer than ${IMAGE_LIMITS.recipeBytesMax} bytes`);
  let raw: unknown;
  try {
    raw = parseToml(text);
  } catch (cause) {
    throw wrong(`is not TOML: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
  const parsed = RecipeWire.safeParse(raw);
  if (!parsed.success) throw wrong(parsed.error.issues.map(describeIssue).join("; "));
  const recipe = { ...parsed.data, name, pipLock };
  const problem = problemOf(recipe);
  if (problem !== null) throw wrong(problem);
  return recipe;
}

/** Equal when recipe, lock and base are: the image then need not be built again. `baseId` is that of the host image, or the suite. */
export function recipeKey(recipe: Recipe, baseId: string): string {
  const { base, apt, pip, run, env, uid, pipLock } = recipe;
  const parts = [BUILDERS_VERSION, process.arch, baseId, base, apt, pip, run, sortedEntries(env), uid, pipLock];
  return Bun.SHA256.hash(JSON.stringify(parts), "hex").slice(0, KEY_CHARS);
}

/** Entries in order of name, for hashing. */
export function sortedEntries(record: Readonly<Record<string, string>>): [string, string][] {
  return Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1));
}

/** What no single field shows. */
function problemOf(recipe: Recipe): string | null {
  const { base, apt, pip, run, pipLock } = recipe;
  if (base === "host") {
    if (apt.length > 0) return 'apt: the base `host` cannot take Debian packages; use base = "debian:SUITE"';
    if (run.length > 0) return 'run: the base `host` takes pip packages only; use base = "debian:SUITE"';
    if (pip.length === 0) return "pip: is empty, so the image would be `host` itself";
  } else if (pip.length > 0 && !apt.includes("python3-pip")) {
    return "apt: packages of pip need python3-pip on a Debian base";
  }
  const unpinned = pipLock === null ? pip.find((one) => !PIP_PINNED.test(one)) : undefined;
  if (unpinned === undefined) return null;
  return `pip: ${unpinned} names no version; write ${unpinned}==VERSION, or lay a pip.lock with hashes beside the recipe`;
}

function describeIssue(issue: z.core.$ZodIssue): string {
  if (issue.code === "unrecognized_keys") {
    return `${issue.keys.join(", ")}: unknown; known are ${Object.keys(RecipeWire.shape).join(", ")}`;
  }
  return `${issue.path.join(".") || "the recipe"}: ${issue.message}`;
}
