import { chmodSync, chownSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { newNonce } from "../ids.ts";
import { type Bwrap, findBwrap } from "./find-bwrap.ts";

/** The name under which the build embeds it. */
const EMBEDDED_NAME = "bwrap";
const PROGRAM_MODE = 0o755;

export interface BundledBwrapOptions {
  /** The server's data folder; it is made when it is not there. */
  dataDir: string;
  /** The uid of sandboxes when the server is root, which must reach the program; null for an ordinary user's server. */
  sandboxUid: number | null;
}

/** Where `unpackBundledBwrap` puts it. */
export function bundledBwrapPath(dataDir: string): string {
  return join(resolve(dataDir), "bin", "bwrap");
}

/**
 * Puts the bubblewrap that this program carries into the data folder and gives it; null when it carries none, as from
 * source. What lies there already is kept only when its hash is that of the one inside. Throws with the path when the
 * folder cannot be written or what is in it cannot be run.
 */
export async function unpackBundledBwrap(options: BundledBwrapOptions): Promise<Bwrap | null> {
  const embedded = Bun.embeddedFiles.find((file) => "name" in file && file.name === EMBEDDED_NAME);
  if (embedded === undefined) return null;
  const path = bundledBwrapPath(options.dataDir);
  try {
    mkdirSync(resolve(options.dataDir), { recursive: true, mode: 0o700 });
    mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
    if (options.sandboxUid !== null) letThrough(resolve(options.dataDir), options.sandboxUid);
    const bytes = await embedded.bytes();
    if (!isSame(path, bytes)) await replace(path, bytes);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new Error(`the bundled bubblewrap cannot be unpacked to ${path}: ${why}`, { cause });
  }
  const bwrap = await findBwrap([path]);
  if (bwrap === null) throw new Error(`${path} cannot be run: is the folder mounted noexec?`);
  return bwrap;
}

/** A regular file with these very bytes that everyone may run. */
function isSame(path: string, bytes: Uint8Array): boolean {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (!found?.isFile() || (found.mode & 0o777) !== PROGRAM_MODE || found.size !== bytes.length) return false;
  return Bun.SHA256.hash(readFileSync(path), "hex") === Bun.SHA256.hash(bytes, "hex");
}

/** By renaming: a sandbox that starts meanwhile gets the old one or the new one, whole. */
async function replace(path: string, bytes: Uint8Array): Promise<void> {
  const unfinished = `${path}.${newNonce()}`;
  try {
    await writeFile(unfinished, bytes, { flag: "wx", mode: PROGRAM_MODE });
    chmodSync(unfinished, PROGRAM_MODE); // whatever the umask took away
    renameSync(unfinished, path);
  } catch (error) {
    rmSync(unfinished, { force: true });
    throw error;
  }
}

/** Lets the sandbox uid pass `folder`, but not list it; the uid is its own group when a sandbox starts. */
export function letThrough(folder: string, uid: number): void {
  const { mode, uid: owner, gid } = statSync(folder);
  if ((mode & 0o001) !== 0 || (gid === uid && (mode & 0o010) !== 0)) return;
  if ((mode & 0o070) !== 0) {
    chmodSync(folder, (mode & 0o7777) | 0o001); // the group is somebody's: leave it
    return;
  }
  chownSync(folder, owner, uid);
  chmodSync(folder, (mode & 0o7777) | 0o010);
}
