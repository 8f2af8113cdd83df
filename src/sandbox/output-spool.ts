import { closeSync, constants, openSync, readSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { openUnnamedFile } from "../libc.ts";

/** `O_TMPFILE`, which Node has no name for: a file on disk without a name, gone with its descriptor whoever is killed. */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;
const OWNER_ONLY = 0o600;

/**
 * The first bytes of a long output, on disk, so that a flood costs the server no memory. When the disk is full it is
 * given up: the output itself goes on. Owns its descriptor.
 */
export class OutputSpool implements Disposable {
  readonly #bytesMax: number;
  #fd: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
    this.#fd = openSpool();
  }

  push(bytes: Uint8Array): void {
    const taken = Math.min(bytes.length, this.#bytesMax - this.#bytes);
    if (taken <= 0 || this.#fd < 0) return;
    try {
      for (let at = 0; at < taken; ) {
        const written = writeSync(this.#fd, bytes, at, taken - at, this.#bytes);
        at += written;
        this.#bytes += written;
      }
    } catch {
      this.#end(); // ENOSPC: a gap in the middle would be a lie
    }
  }

  /** All that is kept; null when it was given up. */
  read(): Uint8Array | null {
    if (this.#fd < 0) return null;
    const all = new Uint8Array(this.#bytes);
    for (let at = 0; at < all.length; ) {
      const got = readSync(this.#fd, all, at, all.length - at, at);
      if (got === 0) return all.subarray(0, at);
      at += got;
    }
    return all;
  }

  [Symbol.dispose](): void {
    this.#end();
  }

  #end(): void {
    if (this.#fd >= 0) closeSync(this.#fd);
    this.#fd = -1;
  }
}

/** In memory where the folder for temporary files takes none; -1 when this process has no descriptor left. */
function openSpool(): number {
  try {
    return openSync(tmpdir(), constants.O_RDWR | O_TMPFILE, OWNER_ONLY);
  } catch {
    // EACCES, EROFS, or EOPNOTSUPP of a file system without such files
  }
  try {
    return openUnnamedFile();
  } catch {
    return -1;
  }
}
