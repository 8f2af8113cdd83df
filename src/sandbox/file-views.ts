import { closeSync, constants, fstatSync, readdirSync, readSync, type Stats } from "node:fs";
import { type FileRoot, openInRoot } from "../libc.ts";
import { isKernelFile, problemOf, QUIET } from "./files.ts";
import type { FileKind, FilePart } from "./sandbox.ts";

/** Looks at files of a sandbox without reading them whole; resolved in its root like every path of `files.ts`. */

const O_PATH = 0o10000000;

/** What stands at `path`, symlinks followed, without opening it; null when there is nothing, or nothing the agent could see. */
export function kindOfSandboxFile(root: FileRoot, path: string): FileKind | null {
  return withOpened(root, path, O_PATH, (fd, stat) => {
    if (stat.isDirectory()) return "folder";
    if (stat.isFIFO()) return "FIFO";
    if (stat.isSocket()) return "socket";
    if (!stat.isFile()) return "device";
    return isKernelFile(fd) ? "kernel file" : "file";
  });
}

/** At most `bytesMax` bytes of a regular file from `start` on, and its length; null as `readSandboxFile` says it. */
export function readSandboxPart(
  root: FileRoot,
  path: string,
  { start, bytesMax }: { start: number; bytesMax: number },
): FilePart | null {
  return withOpened(root, path, constants.O_RDONLY | QUIET, (fd, stat) => {
    if (!stat.isFile() || isKernelFile(fd)) return null;
    const bytes = new Uint8Array(Math.max(0, Math.min(bytesMax, stat.size - start)));
    let at = 0;
    while (at < bytes.length) {
      const got = readSync(fd, bytes, at, bytes.length - at, start + at);
      if (got === 0) break; // it was cut off meanwhile
      at += got;
    }
    return { bytes: bytes.subarray(0, at), size: stat.size };
  });
}

/** Names in a folder, sorted, those of folders with a slash at their end; null when it is none. */
export function listSandboxFolder(
  root: FileRoot,
  path: string,
  namesMax: number,
): { names: readonly string[]; more: boolean } | null {
  return withOpened(root, path, constants.O_RDONLY | constants.O_DIRECTORY | QUIET, (fd) => {
    const entries = readdirSync(`/proc/self/fd/${fd}`, { withFileTypes: true });
    const names = entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name)).sort();
    return { names: names.slice(0, namesMax), more: names.length > namesMax };
  });
}

function withOpened<T>(root: FileRoot, path: string, flags: number, work: (fd: number, stat: Stats) => T): T | null {
  if (problemOf(path) !== null) return null;
  const fd = openInRoot(root, path, flags, 0);
  if (fd < 0) return null;
  try {
    return work(fd, fstatSync(fd));
  } finally {
    closeSync(fd);
  }
}
