import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../clock.ts";
import { newNonce } from "../../ids.ts";
import { IMAGE_LIMITS } from "../../limits.ts";
import { Draft } from "./draft.ts";
import { ImageError } from "./image-error.ts";
import { FileLock } from "./lock.ts";
import { type Manifest, readManifest, writeManifest } from "./manifest.ts";
import { manifestOf, type Pointer, readPointer, writePointer } from "./pointer.ts";
import { BUILD_LOCK_PREFIX, DRAFT_PREFIX, problemOfName, StoreFolders } from "./store-folders.ts";
import { UseLocks } from "./use-locks.ts";

export interface ImageStoreOptions {
  folder: string;
  bytesMax: number;
  clock: Clock;
}

/** What making a name mean an image did to others. */
export interface Pointed {
  /** The id that the name meant until now; null when it was new or meant the same. */
  before: string | null;
  /** Images that went, to make room or as no name means them any more, by their names or else their id. */
  removed: string[];
}

/** An image of the store that this process holds. */
export interface StoreLease {
  readonly manifest: Manifest;
  /** Of its `rootfs` or `layer`. */
  readonly folder: string;
  release(): void;
}

const FOLDER_MODE = 0o755;
const POINTER_SUFFIX = ".pointer";
const ID = /^[0-9a-f]{16}$/;
/** A name may move to another image, and that be removed, between two looks. */
const LEASE_TRIES_MAX = 4;

/**
 * Images on disk, shared by every process that opens the same folder: immutable folders named by their content, names that
 * point to them, locks that end with their process. Nothing is made before the first image is.
 */
export class ImageStore {
  readonly folders: StoreFolders;
  readonly #options: ImageStoreOptions;
  readonly #uses: UseLocks;
  readonly #manifests = new Map<string, Manifest>();

  constructor(options: ImageStoreOptions) {
    this.folders = new StoreFolders(options.folder);
    this.#options = options;
    this.#uses = new UseLocks(this.folders, options.clock);
  }

  /** All names with their ids, in order of name. */
  names(): ReadonlyMap<string, string> {
    const files = filesOf(this.folders.names).sort();
    const found = files.flatMap((file) => {
      const name = this.folders.nameOf(file);
      const id = this.#pointerOf(name)?.id ?? null;
      return id === null || this.manifest(id) === null ? [] : [[name, id] as const];
    });
    return new Map(found);
  }

  /** Of an id; null when there is no such image. */
  manifest(id: string): Manifest | null {
    if (!existsSync(this.folders.manifest(id))) {
      this.#manifests.delete(id);
      return null;
    }
    const known = this.#manifests.get(id) ?? readManifest(this.folders.manifest(id));
    if (known !== null) this.#manifests.set(id, known);
    return known;
  }

  /** The image that a name or an id means now; null when there is none. */
  find(nameOrId: string): Manifest | null {
    const pointer = this.#pointerOf(nameOrId);
    if (pointer !== null) return this.#follow(pointer);
    return ID.test(nameOrId) ? this.manifest(nameOrId) : null;
  }

  /** What was built from this key, with a name or without; null when it must be built. */
  findKey(key: string): Manifest | null {
    const pointer = readPointer(join(this.folders.keys, key));
    return pointer === null ? null : this.#follow(pointer);
  }

  /** Holds an image against removal; null when there is none of that name or id. */
  lease(nameOrId: string): StoreLease | null {
    for (let i = 0; i < LEASE_TRIES_MAX; i += 1) {
      const manifest = this.find(nameOrId);
      if (manifest === null) return null;
      if (this.#uses.hold(manifest.id)) return this.#leaseOf(manifest);
    }
    return null;
  }

  /** Leases of this process. */
  inUse(id: string): number {
    return this.#uses.count(id);
  }

  /** By any process; null when no sandbox ever ran on it. */
  lastUsedAtMs(id: string): number | null {
    return this.#uses.lastUsedAtMs(id);
  }

  /** Opens a folder for a new image; it is gone when it was not published. */
  async begin(signal: AbortSignal): Promise<Draft> {
    this.#makeFolders();
    using _lock = await this.#lockStore(signal);
    return Draft.open(this.folders);
  }

  /** Makes `draft` the image that `name` means, and `contents` of it what sandboxes see. One of the same id stays what it was. */
  async publish(
    draft: Draft,
    { name, manifest, contents }: { name: string; manifest: Manifest; contents: string },
  ): Promise<Pointed> {
    const { id, key } = manifest;
    await draft.clear(contents);
    let before: string | null;
    {
      using _lock = await this.#lockStore(new AbortController().signal);
      if (this.manifest(id) === null) {
        writeManifest(join(draft.folder, "manifest.json"), manifest);
        writeFileSync(this.folders.useLock(id), "");
        utimesSync(this.folders.useLock(id), 0, 0);
        draft.become(this.folders.image(id));
      }
      before = this.#pointName(name, manifest);
      this.#point(join(this.folders.keys, key), manifest);
    }
    return { before, removed: await this.collect(id) };
  }

  /** Makes `name` mean the image of `manifest` too, with its source and notes; null when that is gone. */
  async point(name: string, manifest: Manifest, signal: AbortSignal): Promise<Pointed | null> {
    let before: string | null;
    {
      using _lock = await this.#lockStore(signal);
      if (this.manifest(manifest.id) === null) return null;
      before = this.#pointName(name, manifest);
    }
    return { before, removed: await this.collect(manifest.id) };
  }

  /** Takes the name away, and the image when it has no other. Throws ImageError absent | busy. */
  async remove(nameOrId: string, signal: AbortSignal): Promise<void> {
    if (!existsSync(this.folders.root)) throw absent(nameOrId);
    await using draft = await this.begin(signal);
    using _lock = await this.#lockStore(signal);
    const manifest = this.find(nameOrId);
    if (manifest === null) throw absent(nameOrId);
    const names = [...this.names()].filter(([, id]) => id === manifest.id).map(([name]) => name);
    const rest = nameOrId === manifest.id ? [] : names.filter((name) => name !== nameOrId);
    if (rest.length === 0 && !this.#discard(manifest.id, draft)) {
      throw new ImageError("busy", `sandboxes run on ${nameOrId}; remove it when they have ended`);
    }
    for (const name of names) if (!rest.includes(name)) rmSync(this.folders.nameFile(name), { force: true });
  }

  /**
   * Removes images that no name means, then those not used for longest until all fit in `bytesMax`: never one in use, nor
   * `keep`. Gives the names of what was removed, or its id where it had none.
   */
  async collect(keep: string | null): Promise<string[]> {
    if (!existsSync(this.folders.images)) return [];
    const never = new AbortController().signal;
    await using draft = await this.begin(never);
    using _lock = await this.#lockStore(never);
    const named = this.names();
    const all = filesOf(this.folders.images).flatMap((id) => this.manifest(id) ?? []);
    const isNamed = (id: string) => [...named.values()].includes(id);
    const usedAt = ({ id, createdAtMs }: Manifest) => this.lastUsedAtMs(id) ?? createdAtMs;
    let bytes = all.reduce((sum, manifest) => sum + manifest.bytes, 0);
    const order = all.toSorted((a, b) => Number(isNamed(a.id)) - Number(isNamed(b.id)) || usedAt(a) - usedAt(b));
    return order.flatMap((manifest) => {
      const isSurplus = !isNamed(manifest.id) || bytes > this.#options.bytesMax;
      if (manifest.id === keep || !isSurplus || !this.#discard(manifest.id, draft)) return [];
      bytes -= manifest.bytes;
      const names = [...named].filter(([, id]) => id === manifest.id).map(([name]) => name);
      for (const name of names) rmSync(this.folders.nameFile(name), { force: true });
      return names.length > 0 ? names : [manifest.id];
    });
  }

  /** Deletes what killed builds and removals left. Safe beside others that build. Gives the number of folders deleted. */
  async sweep(): Promise<number> {
    if (!existsSync(this.folders.root)) return 0;
    const left: Draft[] = [];
    {
      using _lock = await this.#lockStore(new AbortController().signal);
      for (const name of filesOf(this.folders.root)) {
        if (!name.startsWith(DRAFT_PREFIX)) continue;
        if (name.endsWith(POINTER_SUFFIX)) {
          rmSync(join(this.folders.root, name), { force: true });
          continue;
        }
        const draft = Draft.takeOver(join(this.folders.root, name));
        if (draft !== null) left.push(draft);
      }
    }
    for (const name of filesOf(this.folders.locks)) this.#dropFreeBuildLock(name);
    for (const draft of left) await draft[Symbol.asyncDispose]();
    return left.length;
  }

  /** A lock that a killed build left; one that is held is left alone. */
  #dropFreeBuildLock(name: string): void {
    if (!name.startsWith(BUILD_LOCK_PREFIX)) return;
    const file = join(this.folders.locks, name);
    using lock = FileLock.tryTake(file, "exclusive");
    if (lock !== null) rmSync(file, { force: true });
  }

  #pointerOf(name: string): Pointer | null {
    return problemOfName(name) === null ? readPointer(this.folders.nameFile(name)) : null;
  }

  #follow(pointer: Pointer): Manifest | null {
    const manifest = this.manifest(pointer.id);
    return manifest === null ? null : manifestOf(manifest, pointer);
  }

  #pointName(name: string, to: Manifest): string | null {
    const before = this.#pointerOf(name)?.id ?? to.id;
    this.#point(this.folders.nameFile(name), to);
    return before === to.id ? null : before;
  }

  #point(file: string, to: Manifest): void {
    writePointer(file, to, join(this.folders.root, `${DRAFT_PREFIX}${newNonce()}${POINTER_SUFFIX}`));
  }

  /** Moves an image that nobody holds into `draft`, which deletes it; false when it is held. */
  #discard(id: string, draft: Draft): boolean {
    const lock = FileLock.tryTake(this.folders.useLock(id), "exclusive");
    if (lock === null) return false;
    try {
      draft.swallow(this.folders.image(id));
      rmSync(this.folders.useLock(id), { force: true });
      for (const key of filesOf(this.folders.keys)) {
        const file = join(this.folders.keys, key);
        if (readPointer(file)?.id === id) rmSync(file, { force: true });
      }
      this.#manifests.delete(id);
      return true;
    } finally {
      lock.release();
    }
  }

  #leaseOf(manifest: Manifest): StoreLease {
    const { id } = manifest;
    let isHeld = true;
    return {
      manifest,
      folder: this.folders.contents(manifest),
      release: () => {
        if (isHeld) this.#uses.release(id);
        isHeld = false;
      },
    };
  }

  #makeFolders(): void {
    const { root, names, keys, images, locks } = this.folders;
    for (const folder of [root, names, keys, images, locks]) {
      if (existsSync(folder)) continue;
      mkdirSync(folder, { recursive: true, mode: FOLDER_MODE });
      chmodSync(folder, FOLDER_MODE);
    }
  }

  async #lockStore(signal: AbortSignal): Promise<FileLock> {
    const msMax = IMAGE_LIMITS.storeLockMs;
    const lock = await FileLock.take(this.folders.storeLock, this.#options.clock, { msMax, signal });
    if (lock !== null) return lock;
    signal.throwIfAborted();
    throw new ImageError("busy", `${this.folders.storeLock} was held by another process for ${msMax} ms`);
  }
}

function filesOf(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder) : [];
}

function absent(name: string): ImageError {
  return new ImageError("absent", `there is no image ${name}; \`rolloutd image ls\` lists what there is`);
}
