import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  statfsSync,
  writeSync,
} from "node:fs";
import { constants as osConstants } from "node:os";
import { RolloutError } from "../errors.ts";
import { ERRNO, type FileRoot, makeDirectoryAt, openInRoot, removeFileAt } from "../libc.ts";
import type { SandboxFile } from "./sandbox.ts";

/**
 * Files of a sandbox, reached from outside through a descriptor of its root that was taken at its start. The kernel
 * resolves every path inside that root (openat2), so no symlink, `..` or race of the agent leads to a host file.
 */

const O_PATH = 0o10000000;
/** Opening flags with which neither a FIFO nor a terminal may hold up or attach the server. */
export const QUIET = constants.O_NONBLOCK | constants.O_NOCTTY;
const PROC_MAGIC = 0x9fa0;
const SYSFS_MAGIC = 0x62656572;
/** The kernel's own bound, PATH_MAX. */
const PATH_CHARS_MAX = 4_096;
const NAMED_CHARS_MAX = 100;
const FOLDER_MODE = 0o755;
const FILE_MODE = 0o644;

/** A descriptor of the root folder of the process `pid`; it keeps the folder alive when the process is gone. */
export function openRoot(pid: number): number {
  return openSync(`/proc/${pid}/root`, O_PATH | constants.O_DIRECTORY);
}

/**
 * Reads a regular file; null when there is none, or what is there is none (a folder, FIFO, device, proc file), or
 * the agent itself could not read it. Throws RolloutError sandbox_limit when it holds more than `bytesMax`.
 */
export function readSandboxFile(root: FileRoot, path: string, bytesMax: number): Uint8Array | null {
  if (problemOf(path) !== null) return null;
  const fd = openInRoot(root, path, constants.O_RDONLY | QUIET, 0);
  if (fd < 0) return null;
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile() || isKernelFile(fd)) return null;
    if (stat.size > bytesMax) {
      throw new RolloutError("sandbox_limit", `${path} holds ${stat.size} bytes; at most ${bytesMax} are read`);
    }
    return readWhole(fd, stat.size);
  } finally {
    closeSync(fd);
  }
}

/** Writes a file and the folders above it, replacing what it held; an old file keeps its mode unless one is given. Throws RolloutError sandbox_limit when it cannot. */
export function writeSandboxFile(root: FileRoot, { path, bytes, mode }: SandboxFile): void {
  checkPath(path);
  makeSandboxFolder(root, parentOf(path));
  const flags = constants.O_WRONLY | constants.O_CREAT | QUIET;
  const fd = openInRoot(root, path, flags, mode ?? FILE_MODE);
  if (fd < 0) throw refusal(path, -fd);
  try {
    if (!fstatSync(fd).isFile() || isKernelFile(fd)) throw refusal(path, ERRNO.EACCES);
    ftruncateSync(fd, 0);
    for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
    if (mode !== undefined) fchmodSync(fd, mode);
  } catch (error) {
    throw error instanceof RolloutError ? error : refusal(path, errnoOf(error), error);
  } finally {
    closeSync(fd);
  }
}

/** Removes a file, not a folder; a symlink itself. Throws RolloutError sandbox_limit when it cannot. */
export function removeSandboxFile(root: FileRoot, path: string): void {
  checkPath(path);
  const parent = openInRoot(root, parentOf(path), O_PATH | constants.O_DIRECTORY, 0);
  if (parent < 0) throw refusal(path, -parent);
  try {
    const removed = removeFileAt({ fd: parent, uid: root.uid }, nameOf(path));
    if (removed < 0) throw refusal(path, -removed);
  } finally {
    closeSync(parent);
  }
}

/** Makes a folder and those above it; one that is there is left as it is. Throws RolloutError sandbox_limit when it cannot. */
export function makeSandboxFolder(root: FileRoot, path: string): void {
  checkPath(path);
  closeSync(openFolder(root, path));
}

/** A descriptor of the folder, made if missing, from the top down. */
function openFolder(root: FileRoot, path: string): number {
  const open = () => openInRoot(root, path, O_PATH | constants.O_DIRECTORY, 0);
  const there = open();
  if (there >= 0) return there;
  if (-there !== ERRNO.ENOENT || path === "/") throw refusal(path, -there);
  const parent = openFolder(root, parentOf(path));
  try {
    const made = makeDirectoryAt({ fd: parent, uid: root.uid }, nameOf(path), FOLDER_MODE);
    if (made < 0 && -made !== ERRNO.EEXIST) throw refusal(path, -made);
  } finally {
    closeSync(parent);
  }
  const fd = open();
  if (fd < 0) throw refusal(path, -fd);
  return fd;
}

/** The errno with which a path is refused before the kernel, or the work on its parts, sees it. */
export function problemOf(path: string): number | null {
  if (path.includes("\0")) return ERRNO.EINVAL;
  return path.length >= PATH_CHARS_MAX ? ERRNO.ENAMETOOLONG : null;
}

function checkPath(path: string): void {
  const problem = problemOf(path);
  if (problem !== null) throw refusal(JSON.stringify(path.slice(0, NAMED_CHARS_MAX)), problem);
}

/** `/a//b/` is in `/a`: slashes at the end of a name or in a row count for nothing. */
function parentOf(path: string): string {
  const named = path.replace(/\/+$/, "");
  return named.slice(0, named.lastIndexOf("/") + 1).replace(/\/+$/, "") || "/";
}

function nameOf(path: string): string {
  const named = path.replace(/\/+$/, "");
  return named.slice(named.lastIndexOf("/") + 1);
}

function readWhole(fd: number, size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let at = 0;
  while (at < size) {
    const got = readSync(fd, bytes, at, size - at, at);
    if (got === 0) break; // it was cut off meanwhile
    at += got;
  }
  return bytes.subarray(0, at);
}

/** Whether `fd` is of /proc or /sys, which hold files that block, act or show the machine. */
export function isKernelFile(fd: number): boolean {
  const { type } = statfsSync(`/proc/self/fd/${fd}`);
  return type === PROC_MAGIC || type === SYSFS_MAGIC;
}

function errnoOf(error: unknown): number {
  return error instanceof Error && "errno" in error && typeof error.errno === "number" ? Math.abs(error.errno) : 0;
}

function refusal(path: string, errno: number, cause?: unknown): RolloutError {
  const name = Object.entries(osConstants.errno).find(([, number]) => number === errno)?.[0] ?? `errno ${errno}`;
  const detail = errno === ERRNO.ENOSPC ? "the sandbox's disk is full" : name;
  return new RolloutError("sandbox_limit", `${path} cannot be written: ${detail}`, { cause });
}
