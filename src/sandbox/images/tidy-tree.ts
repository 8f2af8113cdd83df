import type { Stats } from "node:fs";
import { chmod, lstat, readdir, readlink, rm } from "node:fs/promises";
import { join } from "node:path";
import { IMAGE_LIMITS } from "../../limits.ts";
import { ImageError } from "./image-error.ts";

export interface TreeFacts {
  /** Hash over every path, mode, link target and byte; not over times, nor compiled Python, which holds some. */
  id: string;
  /** On disk; a file with several names counts once. */
  bytes: number;
  entries: number;
  /** Files that lost setuid or setgid. */
  stripped: number;
  /** Devices and sockets, which were deleted. */
  deleted: number;
}

const SET_ID_BITS = 0o6000;
/** Follows from the source beside it, but holds the time at which that was written. */
const COMPILED_PYTHON = /\/__pycache__\/[^/]+\.pyc$/;
const BLOCK_BYTES = 512;
const ID_CHARS = 16;

/**
 * Makes what was built fit to be an image and says what it is: no setuid or setgid, no devices, folders that their owner can
 * read. Follows no symlink; nothing that may change the tree runs any more. Throws ImageError failed when it is too large.
 */
export async function tidyTree(top: string, signal: AbortSignal): Promise<TreeFacts> {
  const hash = new Bun.CryptoHasher("sha256");
  const facts = { bytes: 0, entries: 0, stripped: 0, deleted: 0 };
  const counted = new Set<number>();
  const pending = [""];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    signal.throwIfAborted();
    await makeReadable(join(top, folder));
    for (const name of (await readdir(join(top, folder))).sort()) {
      const path = `${folder}/${name}`;
      const stat = await tidyEntry(join(top, path), facts);
      if (stat === null) continue;
      facts.entries += 1;
      if (facts.entries > IMAGE_LIMITS.entriesMax) {
        throw new ImageError("failed", `the image has more than ${IMAGE_LIMITS.entriesMax} files and folders`);
      }
      if (!counted.has(stat.ino)) facts.bytes += stat.blocks * BLOCK_BYTES;
      if (stat.nlink > 1) counted.add(stat.ino);
      if (stat.isDirectory()) pending.push(path);
      hash.update(`${path}\0${stat.mode.toString(8)}\0${await contentOf(join(top, path), stat)}\0`);
    }
  }
  return { ...facts, id: hash.digest("hex").slice(0, ID_CHARS) };
}

/** What it is now; null when it was deleted. */
async function tidyEntry(path: string, facts: { stripped: number; deleted: number }): Promise<Stats | null> {
  const stat = await lstat(path);
  if (stat.isBlockDevice() || stat.isCharacterDevice() || stat.isSocket()) {
    await rm(path);
    facts.deleted += 1;
    return null;
  }
  if (stat.isSymbolicLink() || (stat.mode & SET_ID_BITS) === 0) return stat;
  await chmod(path, stat.mode & 0o1777);
  facts.stripped += 1;
  return lstat(path);
}

/** The agent's uid 0 has no capability, so a folder that its owner may not read is closed to it for good. */
async function makeReadable(folder: string): Promise<void> {
  const { mode } = await lstat(folder);
  if ((mode & 0o500) !== 0o500) await chmod(folder, (mode & 0o1777) | 0o500);
}

async function contentOf(path: string, stat: Stats): Promise<string> {
  if (stat.isSymbolicLink()) return readlink(path);
  if (!stat.isFile() || COMPILED_PYTHON.test(path)) return "";
  const hash = new Bun.CryptoHasher("sha256");
  try {
    for await (const chunk of Bun.file(path).stream()) hash.update(chunk);
  } catch {
    return "unreadable"; // its owner has no right to it, nor has an agent
  }
  return hash.digest("hex");
}
