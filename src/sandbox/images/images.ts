import { ftruncateSync, readFileSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Clock } from "../../clock.ts";
import { IMAGE_LIMITS } from "../../limits.ts";
import type { SandboxImage } from "../image.ts";
import { stageMount } from "../stage.ts";
import type { BuildContext, BuildProgress, Built } from "./build-context.ts";
import { buildDebian, debianSteps } from "./build-debian.ts";
import { buildLayer, LAYER_STEPS } from "./build-layer.ts";
import { ImageError, SEE_DOCTOR } from "./image-error.ts";
import { archiveKey, IMPORT_STEPS, importArchive } from "./import-archive.ts";
import { FileLock } from "./lock.ts";
import type { Manifest } from "./manifest.ts";
import { type Recipe, recipeKey, sortedEntries } from "./recipe.ts";
import type { ImageStore, Pointed } from "./store.ts";
import { problemOfName } from "./store-folders.ts";
import { tidyTree } from "./tidy-tree.ts";

export interface ImageBuilderOptions {
  store: ImageStore;
  /** The image `host`, which layers lie on. */
  host: SandboxImage;
  /** The bubblewrap that confines builds; throws when there is none. */
  bwrapPath: () => Promise<string>;
  sandboxUid: number | null;
  /** Makes the folders above the store as they must be. */
  prepare: () => void;
  /** Why nothing can be built into this store; null when it can. */
  problem: () => string | null;
  /** Of this machine, for downloads. */
  env: Readonly<Record<string, string>>;
  clock: Clock;
}

/** What to make an image from. */
export type ImageSource = { recipe: Recipe } | { archive: string };

export interface BuildOptions {
  name: string;
  /** Builds again although nothing changed: newer packages of a suite, say. */
  rebuild: boolean;
  /** Must not throw. */
  onProgress: (progress: BuildProgress) => void;
  signal: AbortSignal;
}

/** An image, whether it was built for this, and what that did to others. */
export interface BuildResult extends Pointed {
  manifest: Manifest;
  isNew: boolean;
}

interface Plan {
  key: string;
  source: string;
  steps: readonly string[];
  build: (context: BuildContext) => Promise<Built>;
}

const TIDY = "check and hash the files";
const WAIT = "wait for another build of this image";
const LINE_CHARS_MAX = 200;
const ID_CHARS = 16;

/**
 * Makes images. One that is there already with the same key is used again; two builds with one key at once, also of two
 * processes, are one. Whatever ends a build early leaves nothing.
 */
export class ImageBuilder {
  readonly #options: ImageBuilderOptions;

  constructor(options: ImageBuilderOptions) {
    this.#options = options;
  }

  /** Throws ImageError, or the reason of the signal. */
  async build(source: ImageSource, options: BuildOptions): Promise<BuildResult> {
    const problem = problemOfName(options.name);
    if (problem !== null) throw new ImageError("input", `${JSON.stringify(options.name)}: ${problem}`);
    const { store } = this.#options;
    if (store.names().size >= IMAGE_LIMITS.imagesMax) {
      throw new ImageError("failed", `there are ${IMAGE_LIMITS.imagesMax} images; remove some`);
    }
    const foreign = this.#options.problem();
    if (foreign !== null) throw new ImageError("machine", foreign);
    try {
      return await this.#build(this.#plan(source), options);
    } catch (cause) {
      throw isRefusedBySystem(cause) ? new ImageError("machine", `${cause.message}; ${SEE_DOCTOR}`, { cause }) : cause;
    }
  }

  async #build(plan: Plan, options: BuildOptions): Promise<BuildResult> {
    const { store, sandboxUid, prepare } = this.#options;
    const found = options.rebuild ? null : await this.#reuse(plan, options);
    if (found !== null) return found;
    checkUncovered(store.folders.root);
    prepare();
    // Makes the store's folders, and with them the place of the lock.
    await using draft = await store.begin(options.signal);
    checkReachable(draft.folder, sandboxUid);
    let waited = false;
    using lock = await this.#lock(plan, options, () => {
      waited = true;
    });
    try {
      // Whoever built meanwhile built what is asked for here.
      const made = options.rebuild && !waited ? null : await this.#reuse(plan, options);
      if (made !== null) return made;
      const progress = progressOf([...plan.steps, TIDY], (now) => {
        options.onProgress(now);
        tell(lock, now);
      });
      const context = { host: await this.#buildHost(), draft, signal: options.signal, report: progress };
      const built = await plan.build(context);
      progress(TIDY);
      const manifest = await this.#describe(plan, built, `${draft.folder}/${built.contents}`, options.signal);
      const pointed = await store.publish(draft, { name: options.name, manifest, contents: built.contents });
      return { manifest, isNew: true, ...pointed };
    } finally {
      rmSync(store.folders.buildLock(plan.key), { force: true });
    }
  }

  #plan(source: ImageSource): Plan {
    if ("archive" in source) {
      const { archive } = source;
      return {
        key: archiveKey(archive),
        source: `import of ${resolve(archive)}`,
        steps: IMPORT_STEPS,
        build: (context) => importArchive(context, archive),
      };
    }
    const { recipe } = source;
    const isLayer = recipe.base === "host";
    return {
      key: recipeKey(recipe, isLayer ? this.#options.host.id : recipe.base),
      source: `recipe ${recipe.name} on ${recipe.base}`,
      steps: isLayer ? LAYER_STEPS : debianSteps(recipe),
      build: (context) => (isLayer ? buildLayer(context, recipe) : buildDebian(context, recipe)),
    };
  }

  async #reuse({ key, source }: Plan, { name, signal }: BuildOptions): Promise<BuildResult | null> {
    const { store } = this.#options;
    const found = store.findKey(key);
    if (found === null) return null;
    // An equal recipe of another name has the same key.
    const manifest = { ...found, source };
    const pointed = await store.point(name, manifest, signal);
    return pointed === null ? null : { manifest, isNew: false, ...pointed };
  }

  async #lock({ key }: Plan, { onProgress, signal }: BuildOptions, onWait: () => void): Promise<FileLock> {
    const path = this.#options.store.folders.buildLock(key);
    const lock = await FileLock.take(path, this.#options.clock, {
      msMax: IMAGE_LIMITS.buildWaitMs,
      signal,
      onWait: () => {
        onWait();
        onProgress({ step: WAIT, at: 0, of: 1, line: whatItTells(path) });
      },
    });
    if (lock !== null) return lock;
    signal.throwIfAborted();
    throw new ImageError("busy", `another build of this image took longer than ${IMAGE_LIMITS.buildWaitMs} ms`);
  }

  async #buildHost() {
    const { bwrapPath, sandboxUid, clock, env } = this.#options;
    return { bwrapPath: await bwrapPath(), sandboxUid, clock, env };
  }

  async #describe(plan: Plan, built: Built, folder: string, signal: AbortSignal): Promise<Manifest> {
    const { env, path, uid, cwd } = built;
    const tree = await tidyTree(folder, signal);
    // The same files with other settings are another image.
    const settings = [tree.id, sortedEntries(env), path, uid, cwd];
    const id = Bun.SHA256.hash(JSON.stringify(settings), "hex").slice(0, ID_CHARS);
    const notes = [
      ...built.notes,
      ...(tree.stripped > 0 ? [`setuid and setgid taken from ${tree.stripped} files`] : []),
      ...(tree.deleted > 0 ? [`${tree.deleted} devices and sockets left out`] : []),
    ];
    return {
      id,
      kind: built.contents === "layer" ? "layer" : "root",
      source: plan.source,
      key: plan.key,
      baseId: built.contents === "layer" ? this.#options.host.id : null,
      bytes: tree.bytes,
      entries: tree.entries,
      createdAtMs: Math.round(this.#options.clock.nowMs()),
      env,
      path,
      uid,
      cwd,
      notes,
      unusable: built.unusable,
    };
  }
}

/** A file or folder that this machine does not let us make, own or read. */
function isRefusedBySystem(error: unknown): error is Error {
  return error instanceof Error && "syscall" in error && "code" in error;
}

/** Tells a step once when it begins, then its lines. */
function progressOf(steps: readonly string[], tellAll: (progress: BuildProgress) => void) {
  let at = -1;
  return (step: string, line?: string) => {
    // Two commands of a recipe may look alike: a step that begins is looked for after the one before.
    if (line === undefined) at = Math.max(at, steps.indexOf(step, at + 1));
    tellAll({ step, at: Math.max(at, 0), of: steps.length, line: line?.slice(0, LINE_CHARS_MAX) ?? null });
  };
}

/** For those who wait: the file of the lock says what its holder is at. */
function tell({ fd }: FileLock, { step, at, of }: BuildProgress): void {
  const text = `${step} (${at + 1} of ${of})`;
  ftruncateSync(fd, 0);
  writeSync(fd, text, 0);
}

function whatItTells(path: string): string | null {
  try {
    return readFileSync(path, "utf8").slice(0, LINE_CHARS_MAX) || null;
  } catch {
    return null; // it has just ended
  }
}

/** Throws ImageError machine when stage 1 mounts the root of each sandbox over `folder`. */
function checkUncovered(folder: string): void {
  const covered = stageMount();
  if (folder !== covered && !folder.startsWith(`${covered}/`)) return;
  throw new ImageError("machine", `sandboxes cover ${covered} for themselves: name another folder with --images`);
}

/** Throws ImageError machine when the sandbox uid cannot pass a folder above `folder`. */
function checkReachable(folder: string, uid: number | null): void {
  if (uid === null) return;
  for (let above = dirname(folder); above !== "/"; above = dirname(above)) {
    const { mode, gid, uid: owner } = statSync(above);
    const bit = owner === uid ? 0o100 : gid === uid ? 0o010 : 0o001;
    if ((mode & bit) !== 0) continue;
    throw new ImageError(
      "machine",
      `${above} is closed to the sandbox uid ${uid}: chmod o+x ${above}, or name another folder`,
    );
  }
}
