import { join } from "node:path";
import { HOST_NAMES } from "../host-image.ts";

/** What an image may be called: words with `.`, `_`, `-`, parts by `/`, a tag after `:`, as Docker names images. */
const NAME = /^[a-z0-9][a-z0-9._-]*(\/[a-z0-9][a-z0-9._-]*)*(:[A-Za-z0-9_][A-Za-z0-9._-]*)?$/;
const NAME_CHARS_MAX = 200;
/** In place of `/` in the name of a file: no image name holds it. */
const SLASH = "%";

/** What is wrong with a name for an image; null when nothing is. */
export function problemOfName(name: string): string | null {
  if (HOST_NAMES.some((own) => own === name))
    return `\`${name}\` is this machine itself and always there; take another name`;
  if (name.length <= NAME_CHARS_MAX && NAME.test(name)) return null;
  return `an image's name has at most ${NAME_CHARS_MAX} characters: lower-case letters, digits, . _ -, parts by /, a tag after :`;
}

/**
 * Where an image store keeps what. Folders of images and of unfinished builds are the server's own; only what is inside
 * (`rootfs`, `layer`, `work`) belongs to the sandbox uid.
 */
export class StoreFolders {
  constructor(readonly root: string) {}

  /** One file for each name: a pointer to the image. */
  get names(): string {
    return join(this.root, "names");
  }
  /** One file for each key that an image was built from: a pointer to the image. */
  get keys(): string {
    return join(this.root, "keys");
  }
  get images(): string {
    return join(this.root, "images");
  }
  get locks(): string {
    return join(this.root, "locks");
  }
  /** Held for the moments in which names and folders change together. */
  get storeLock(): string {
    return join(this.root, "store.lock");
  }
  nameFile(name: string): string {
    return join(this.names, name.replaceAll("/", SLASH));
  }
  nameOf(file: string): string {
    return file.replaceAll(SLASH, "/");
  }
  image(id: string): string {
    return join(this.images, id);
  }
  /** What sandboxes see of an image. */
  contents({ id, kind }: { id: string; kind: "layer" | "root" }): string {
    return join(this.image(id), kind === "root" ? "rootfs" : "layer");
  }
  manifest(id: string): string {
    return join(this.images, id, "manifest.json");
  }
  /** Shared while the image is in use, exclusive while it is removed; its time is that of the last use. */
  useLock(id: string): string {
    return join(this.locks, `use-${id}`);
  }
  /** Exclusive while the image with this key is built; holds what the build is at. */
  buildLock(key: string): string {
    return join(this.locks, `${BUILD_LOCK_PREFIX}${key}`);
  }
}

/** Locks of builds are files of this name. */
export const BUILD_LOCK_PREFIX = "build-";

/** Unfinished builds and removals are folders of this name in the store; their lock is the file `lock` inside. */
export const DRAFT_PREFIX = "tmp-";
