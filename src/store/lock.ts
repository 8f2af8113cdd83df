import { Database } from "bun:sqlite";
import { dirname } from "node:path";
import { RolloutError } from "../errors.ts";

/**
 * Takes `file` for this process until disposed, or until the process is gone: the kernel frees the lock whatever killed
 * it, and a child inherits nothing. Throws RolloutError store_failed when a live process has it.
 *
 * The lock is SQLite's own exclusive one on an empty database of its own, so that readers of the real database (the
 * sqlite3 shell, a backup) are not shut out.
 */
export function lockFile(file: string): Disposable {
  let lock: Database | null = null;
  try {
    lock = new Database(file, { create: true });
    lock.run("PRAGMA busy_timeout = 0");
    lock.run("BEGIN EXCLUSIVE");
  } catch (cause) {
    lock?.close();
    const detail = isBusy(cause)
      ? `the data folder ${dirname(file)} is locked by another server that is running; stop it or choose another folder`
      : `cannot lock ${file}: ${cause instanceof Error ? cause.message : String(cause)}`;
    throw new RolloutError("store_failed", detail, { cause });
  }
  const held = lock;
  return {
    [Symbol.dispose]() {
      held.close();
    },
  };
}

function isBusy(cause: unknown): boolean {
  return cause instanceof Error && "code" in cause && cause.code === "SQLITE_BUSY";
}
