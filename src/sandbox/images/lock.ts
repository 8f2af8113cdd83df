import { closeSync, constants, fstatSync, openSync, statSync } from "node:fs";
import type { Clock } from "../../clock.ts";
import { tryLock } from "../../libc.ts";
import { IMAGE_LIMITS } from "../../limits.ts";

const FILE_MODE = 0o644;
/** A lock file may be deleted between its opening and its locking; then the next one is tried. */
const TRIES_MAX = 8;

/** A lock that is a file, across processes. It ends with this process at the latest: the kernel sees to that. */
export class FileLock implements Disposable {
  readonly fd: number;
  #isHeld = true;

  private constructor(fd: number) {
    this.fd = fd;
  }

  /** Makes the file when it is missing. Null when another holds it in a way that excludes this one. Never waits. */
  static tryTake(path: string, kind: "shared" | "exclusive"): FileLock | null {
    for (let i = 0; i < TRIES_MAX; i += 1) {
      const fd = openSync(path, constants.O_RDWR | constants.O_CREAT, FILE_MODE);
      if (!lockOrClose(fd, kind)) return null;
      if (statSync(path, { throwIfNoEntry: false })?.ino === fstatSync(fd).ino) return new FileLock(fd);
      closeSync(fd);
    }
    return null;
  }

  /** Waits for it, at most `msMax`; null when the time is up or `signal` aborts. `onWait` is called before each look but the first. */
  static async take(
    path: string,
    clock: Clock,
    options: { msMax: number; signal: AbortSignal; onWait?: () => void },
  ): Promise<FileLock | null> {
    const looks = Math.ceil(options.msMax / IMAGE_LIMITS.lockPollMs);
    for (let i = 0; i <= looks && !options.signal.aborted; i += 1) {
      const lock = FileLock.tryTake(path, "exclusive");
      if (lock !== null) return lock;
      options.onWait?.();
      await clock.sleep(IMAGE_LIMITS.lockPollMs, options.signal);
    }
    return null;
  }

  /** Safe to call twice. */
  release(): void {
    if (this.#isHeld) closeSync(this.fd);
    this.#isHeld = false;
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

function lockOrClose(fd: number, kind: "shared" | "exclusive"): boolean {
  try {
    if (tryLock(fd, kind)) return true;
    closeSync(fd);
    return false;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}
