import { dlopen, FFIType, ptr, read } from "bun:ffi";
import { constants } from "node:fs";
import { assert } from "./errors.ts";

/** What Bun has no face for: pipes, unnamed files, paths that cannot leave a root. Linux with glibc, x64 and arm64. */

const MFD_CLOEXEC = 1;
const F_SETFL = 4;
const RESOLVE_NO_MAGICLINKS = 0x02;
const RESOLVE_IN_ROOT = 0x10;
const O_CLOEXEC = 0o2000000;
/** `openat2` reads three 64-bit fields: flags, mode, resolve. */
const OPEN_HOW_BYTES = 24;

/** Errno values that callers branch on. */
export const ERRNO = { ENOENT: 2, EACCES: 13, EEXIST: 17, ENOSPC: 28 } as const;

const NUMBERS =
  process.arch === "arm64"
    ? { openat2: 437, mkdirat: 34, setfsuid: 151, setfsgid: 152 }
    : { openat2: 437, mkdirat: 258, setfsuid: 122, setfsgid: 123 };

let loaded: ReturnType<typeof load> | undefined;

function load() {
  return dlopen("libc.so.6", {
    pipe2: { args: [FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
    fcntl: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    memfd_create: { args: [FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    syscall: { args: [FFIType.i64, FFIType.i64, FFIType.ptr, FFIType.ptr, FFIType.u64], returns: FFIType.i64 },
    __errno_location: { args: [], returns: FFIType.ptr },
  });
}

function libc() {
  loaded ??= load();
  return loaded.symbols;
}

function errno(): number {
  const at = libc().__errno_location();
  return at === null ? 0 : read.i32(at);
}

/** A pipe whose ends close at exec; `ours` is the end that the server keeps and never blocks on. */
export function openPipe(ours: "read" | "write"): { readFd: number; writeFd: number } {
  const ends = new Int32Array(2);
  const failed = libc().pipe2(ptr(ends), O_CLOEXEC) !== 0;
  if (failed) throw new Error(`pipe2 failed with errno ${errno()}`);
  const [readFd, writeFd] = ends;
  assert(readFd !== undefined && writeFd !== undefined, "pipe2 gives two descriptors");
  libc().fcntl(ours === "read" ? readFd : writeFd, F_SETFL, constants.O_NONBLOCK);
  return { readFd, writeFd };
}

/** Makes reads of `fd` answer at once. */
export function makeNonBlocking(fd: number): void {
  libc().fcntl(fd, F_SETFL, constants.O_NONBLOCK);
}

/** A file without a name: it is gone with its last descriptor, whoever is killed. */
export function openUnnamedFile(): number {
  const fd = libc().memfd_create(ptr(Buffer.from("\0")), MFD_CLOEXEC);
  if (fd < 0) throw new Error(`memfd_create failed with errno ${errno()}`);
  return fd;
}

/**
 * Opens `path` with `rootFd` as its root: no `..`, symlink or magic link leads out. Gives the descriptor, or the
 * negated errno.
 */
export function openInRoot(rootFd: number, path: string, flags: number, mode: number): number {
  const how = new BigUint64Array([
    BigInt(flags | O_CLOEXEC),
    BigInt(mode),
    BigInt(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS),
  ]);
  const name = Buffer.from(`${path}\0`);
  const fd = Number(libc().syscall(NUMBERS.openat2, rootFd, ptr(name), ptr(how), OPEN_HOW_BYTES));
  return fd < 0 ? -errno() : fd;
}

/** Makes the folder `name` in `parentFd`; gives 0 or the negated errno. */
export function makeDirectoryAt(parentFd: number, name: string, mode: number): number {
  // The mode travels in the place of a pointer: the kernel sees only a register.
  const made = Number(libc().syscall(NUMBERS.mkdirat, parentFd, ptr(Buffer.from(`${name}\0`)), mode as never, 0));
  return made < 0 ? -errno() : 0;
}

/**
 * Does synchronous file work as `uid`, on this thread only. Root needs it: a sandbox's tmpfs knows no owner but its
 * own uid, and the kernel refuses files of any other (EOVERFLOW). It also takes root's file capabilities away.
 */
export function asFileUser<T>(uid: number | null, work: () => T): T {
  if (uid === null) return work();
  const set = (value: number) => {
    libc().syscall(NUMBERS.setfsgid, value, null, null, 0);
    libc().syscall(NUMBERS.setfsuid, value, null, null, 0);
  };
  set(uid);
  try {
    return work();
  } finally {
    set(0);
  }
}
