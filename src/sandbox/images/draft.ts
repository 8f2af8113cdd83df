import { chmodSync, chownSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { newNonce } from "../../ids.ts";
import { FileLock } from "./lock.ts";
import { removeTree } from "./remove-tree.ts";
import { DRAFT_PREFIX, type StoreFolders } from "./store-folders.ts";

const LOCK = "lock";

/**
 * An image in the making: a folder that its lock keeps from the sweep. When the process is killed the lock is free, and the
 * next process that opens the store deletes the folder.
 */
export class Draft implements AsyncDisposable {
  readonly folder: string;
  readonly #lock: FileLock;
  #isOurs = true;

  private constructor(folder: string, lock: FileLock) {
    this.folder = folder;
    this.#lock = lock;
  }

  /** The caller holds the store's lock: otherwise a sweep could come between folder and lock. */
  static open(folders: StoreFolders): Draft {
    const folder = join(folders.root, `${DRAFT_PREFIX}${newNonce()}`);
    mkdirSync(folder, { mode: 0o755 });
    chmodSync(folder, 0o755); // whatever the umask took away: the sandbox uid must pass
    const lock = FileLock.tryTake(join(folder, LOCK), "exclusive");
    if (lock === null) throw new Error(`${folder} is new, and nobody else locks it`);
    return new Draft(folder, lock);
  }

  /** The folder that a dead process left; null when it is alive. */
  static takeOver(folder: string): Draft | null {
    const lock = FileLock.tryTake(join(folder, LOCK), "exclusive");
    return lock === null ? null : new Draft(folder, lock);
  }

  /** A folder inside that `uid` may write; null is who we are. */
  makeFolder(name: string, uid: number | null): string {
    const made = join(this.folder, name);
    mkdirSync(made, { mode: 0o755 });
    chmodSync(made, 0o755);
    if (uid !== null) chownSync(made, uid, uid);
    return made;
  }

  /** Takes in the folder `from` of the same store, to be deleted with the draft. */
  swallow(from: string): void {
    renameSync(from, join(this.folder, `old-${newNonce()}`));
  }

  /** Deletes all that was made but `keep`. */
  async clear(keep: string): Promise<void> {
    for (const name of readdirSync(this.folder)) {
      if (name !== keep && name !== LOCK) await removeTree(join(this.folder, name));
    }
  }

  /** Gives the folder away, as `to`. The caller holds the store's lock. */
  become(to: string): void {
    renameSync(this.folder, to);
    this.#isOurs = false;
    rmSync(join(to, LOCK), { force: true });
    this.#lock.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isOurs) await removeTree(this.folder);
    this.#isOurs = false;
    this.#lock.release();
  }
}
