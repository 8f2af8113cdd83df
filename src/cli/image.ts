import { SingleBar } from "cli-progress";
import { wireTime } from "../clock.ts";
import { HOST_NAMES } from "../sandbox/host-image.ts";
import type { BuildProgress } from "../sandbox/images/build-context.ts";
import { ImageError } from "../sandbox/images/image-error.ts";
import type { ImageSource } from "../sandbox/images/images.ts";
import type { Images } from "../sandbox/images/open-images.ts";
import { findRecipe, problemOfRecipes, readRecipe, recipeNames } from "../sandbox/images/recipes.ts";
import { CliError } from "./api-client.ts";
import { printLine } from "./output.ts";
import { formatMs, formatTable } from "./table.ts";

/** What `rolloutd image` works on: the folder, also beside a server that uses it. */
export interface ImageCommandOptions {
  json: boolean;
}

/** `rolloutd image ls`. */
export async function listImages({ catalog, recipesDir }: Images, { json }: ImageCommandOptions): Promise<void> {
  const images = catalog.list();
  if (json) return printLine(JSON.stringify(images.map(toWire), null, 2));
  const rows = images.map(({ name, id, bytes, source, lastUsedAtMs }) => [
    name,
    id,
    bytes === null ? "-" : formatBytes(bytes),
    lastUsedAtMs === null ? "-" : formatTime(lastUsedAtMs),
    source,
  ]);
  await printLine(formatTable([["name", "id", "size", "last used", "source"], ...rows]));
  await printLine(`recipes for \`rolloutd image build\`: ${recipeNames(recipesDir).join(", ")}`);
  const problem = problemOfRecipes(recipesDir);
  if (problem !== null) await printLine(`note: ${problem}`);
}

/** `rolloutd image build`: a recipe by its name, or by the path of its folder or file. */
export async function buildImage(
  images: Images,
  recipe: string,
  options: ImageCommandOptions & { name: string | null; rebuild: boolean },
): Promise<void> {
  const found = asUsage(() => (recipe.includes("/") ? readRecipe(recipe) : findRecipe(recipe, images.recipesDir)));
  await make(images, { recipe: found }, { ...options, name: options.name ?? found.name });
}

/** `rolloutd image import`. */
export function importImage(
  images: Images,
  { name, archive }: { name: string; archive: string },
  options: ImageCommandOptions & { rebuild: boolean },
): Promise<void> {
  return make(images, { archive }, { ...options, name });
}

/** `rolloutd image rm`. */
export async function removeImage({ store }: Images, name: string): Promise<void> {
  if (HOST_NAMES.some((own) => own === name))
    throw new CliError(`\`${name}\` is this machine itself and always there`, 2);
  await store.sweep();
  await orCliError(() => store.remove(name, new AbortController().signal));
  await printLine(`removed ${name}`);
}

/** `rolloutd image inspect`. */
export async function inspectImage(images: Images, name: string, { json }: ImageCommandOptions): Promise<void> {
  const { store, catalog } = images;
  const info = catalog.list().find((one) => one.name === name || one.id === name);
  if (info === undefined) throw new CliError(`there is no image ${name}; \`rolloutd image ls\` lists what there is`);
  const manifest = store.find(name);
  const details = {
    ...toWire(info),
    kind: manifest?.kind ?? "host",
    env: manifest?.env ?? {},
    path: manifest?.path ?? null,
    uid: manifest?.uid ?? 0,
    cwd: manifest?.cwd ?? null,
    files: manifest?.entries ?? null,
    created_at: manifest === null ? null : wireTime(manifest.createdAtMs),
    folder: manifest === null ? null : store.folders.image(manifest.id),
    notes: manifest?.notes ?? [],
  };
  if (json) return printLine(JSON.stringify(details, null, 2));
  const { notes, ...rest } = details;
  const shown = {
    ...rest,
    bytes: info.bytes === null ? null : formatBytes(info.bytes),
    env: Object.entries(details.env)
      .map(([key, value]) => `${key}=${value}`)
      .join(" "),
    last_used_at: info.lastUsedAtMs === null ? null : formatTime(info.lastUsedAtMs),
    created_at: manifest === null ? null : formatTime(manifest.createdAtMs),
  };
  await printLine(formatTable(Object.entries(shown).map(([key, value]) => [key, textOf(value)])));
  for (const note of notes) await printLine(`note: ${note}`);
}

async function make(
  images: Images,
  source: ImageSource,
  { name, rebuild, json }: ImageCommandOptions & { name: string; rebuild: boolean },
): Promise<void> {
  const startMs = performance.now();
  const stop = new AbortController();
  const onSignal = () => stop.abort(new CliError("stopped; what was built so far is removed", 130));
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, onSignal);
  const progress = openProgress();
  try {
    await images.store.sweep();
    const { manifest, isNew, before, removed } = await orCliError(() =>
      images.builder.build(source, { name, rebuild, signal: stop.signal, onProgress: (now) => progress.update(now) }),
    );
    progress.stop();
    const { id, bytes, notes } = manifest;
    if (json)
      return await printLine(JSON.stringify({ name, id, bytes, is_new: isNew, before, removed, notes }, null, 2));
    const took = formatMs(performance.now() - startMs);
    await printLine(isNew ? `${name} is ${id}, ${formatBytes(bytes)}, in ${took}` : `${name} is ${id}, and was there`);
    if (before !== null) await printLine(`note: ${name} meant ${before} until now`);
    const gone = removed.filter((one) => one !== before);
    if (gone.length > 0) await printLine(`note: removed to make room (--images-bytes-max): ${gone.join(", ")}`);
    for (const note of notes) await printLine(`note: ${note}`);
  } finally {
    progress.stop();
    for (const signal of signals) process.off(signal, onSignal);
  }
}

interface Progress {
  update(progress: BuildProgress): void;
  stop(): void;
}

/** On a terminal a bar with the last line of output, elsewhere a line for each step. */
function openProgress(): Progress {
  if (!process.stderr.isTTY) {
    let shown = "";
    return {
      update({ step, at, of }) {
        if (step !== shown) console.error(`${at + 1}/${of} ${step}`);
        shown = step;
      },
      stop() {},
    };
  }
  const format = "{bar} {value}/{total} | {duration_formatted} | {step} {line}";
  const bar = new SingleBar({ format, stream: process.stderr, hideCursor: true, barsize: 16, linewrap: false });
  let isStarted = false;
  return {
    update({ step, at, of, line }) {
      // What a program prints may hold sequences that move the cursor.
      const plain = Bun.stripANSI(line ?? "").replace(/\p{Cc}/gu, " ");
      const shown = { step, line: plain === "" ? "" : `| ${plain.slice(0, LINE_CHARS_MAX)}` };
      if (!isStarted) bar.start(of, at, shown);
      isStarted = true;
      bar.setTotal(of);
      bar.update(at, shown);
    },
    stop() {
      if (isStarted) bar.stop();
      isStarted = false;
    },
  };
}

const LINE_CHARS_MAX = 60;

/** What is wrong with the arguments ends with 2, what went wrong with the work with 1. */
async function orCliError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ImageError)) throw error;
    throw new CliError(error.message, error.fault === "input" ? 2 : 1);
  }
}

function asUsage<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof ImageError ? new CliError(error.message, 2) : error;
  }
}

function toWire({ name, id, source, bytes, lastUsedAtMs }: ReturnType<Images["catalog"]["list"]>[number]) {
  return { name, id, source, bytes, last_used_at: lastUsedAtMs === null ? null : wireTime(lastUsedAtMs) };
}

function formatBytes(bytes: number): string {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

function textOf(value: string | number | null): string {
  return value === null || value === "" ? "-" : String(value);
}

/** To the second, which is what a person reads. */
function formatTime(atMs: number): string {
  return `${wireTime(atMs).slice(0, 19).replace("T", " ")} UTC`;
}
