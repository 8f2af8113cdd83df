import { existsSync, rmSync, statSync, utimesSync } from "node:fs";
import type { Clock } from "../../clock.ts";
import { FileLock } from "./lock.ts";
import type { StoreFolders } from "./store-folders.ts";

/** Which images this process holds: one shared lock for each, however many sandboxes live on it. */
export class UseLocks {
  readonly #folders: StoreFolders;
  readonly #clock: Clock;
  readonly #held = new Map<string, { count: number; lock: FileLock }>();

  constructor(folders: StoreFolders, clock: Clock) {
    this.#folders = folders;
    this.#clock = clock;
  }

  count(id: string): number {
    return this.#held.get(id)?.count ?? 0;
  }

  /** False when the image is gone, or is being removed. */
  hold(id: string): boolean {
    const held = this.#held.get(id);
    if (held !== undefined) {
      held.count += 1;
      return true;
    }
    if (!existsSync(this.#folders.useLock(id))) return false;
    const lock = FileLock.tryTake(this.#folders.useLock(id), "shared");
    if (lock === null) return false;
    if (!existsSync(this.#folders.manifest(id))) {
      rmSync(this.#folders.useLock(id), { force: true }); // it was removed meanwhile, and the file made anew
      lock.release();
      return false;
    }
    this.#held.set(id, { count: 1, lock });
    this.#touch(id);
    return true;
  }

  /** Call it once for each `hold`. */
  release(id: string): void {
    const held = this.#held.get(id);
    if (held === undefined) return;
    held.count -= 1;
    if (held.count > 0) return;
    this.#held.delete(id);
    this.#touch(id);
    held.lock.release();
  }

  /** When a process last took it up or gave it back; null when none ever did. */
  lastUsedAtMs(id: string): number | null {
    const file = statSync(this.#folders.useLock(id), { throwIfNoEntry: false });
    // The file is made with time 0, before the image has its place.
    return file === undefined || file.mtimeMs === 0 ? null : file.mtimeMs;
  }

  #touch(id: string): void {
    const seconds = this.#clock.nowMs() / 1_000;
    utimesSync(this.#folders.useLock(id), seconds, seconds);
  }
}
