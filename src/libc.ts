import { cc, dlopen, FFIType, ptr, read } from "bun:ffi";
import { closeSync, constants, writeSync } from "node:fs";
import { assert } from "./errors.ts";

/** What Bun has no face for: pipes, unnamed files, paths that cannot leave a root. Linux with glibc, x64 and arm64. */

const MFD_CLOEXEC = 1;
const LOCK_SHARED = 1;
const LOCK_EXCLUSIVE = 2;
const LOCK_NOT_WAITING = 4;
const EWOULDBLOCK = 11;
const F_SETFL = 4;
const RESOLVE_NO_MAGICLINKS = 0x02;
const RESOLVE_IN_ROOT = 0x10;
const O_CLOEXEC = 0o2000000;
/** `openat2` reads three 64-bit fields: flags, mode, resolve. */
const OPEN_HOW_BYTES = 24;

/** RLIMIT_SIGPENDING, RLIMIT_MSGQUEUE and RLIMIT_NICE, the same on both architectures. */
const INHERITED_LIMITS = [
  [11, 1_024n],
  [12, 0n],
  [13, 0n],
] as const;

/** Errno values that callers branch on. */
export const ERRNO = { ENOENT: 2, EACCES: 13, EEXIST: 17, EINVAL: 22, ENOSPC: 28, ENAMETOOLONG: 36 } as const;

const NUMBERS =
  process.arch === "arm64"
    ? { openat2: 437, mkdirat: 34, unlinkat: 35, setfsuid: 151, setfsgid: 152 }
    : { openat2: 437, mkdirat: 258, unlinkat: 263, setfsuid: 122, setfsgid: 123 };

/**
 * Calls that act as another user for one system call. In C, since a thread inherits the user of the one that starts
 * it: when JavaScript ran in between, a garbage collection started Bun's helper threads as the sandbox's user, for good.
 * It is linked to nothing, and handed what it needs of libc: linking wants libc.so, which only a compiler's packages bring.
 */
const FILE_CALLS = `
static long (*syscall)(long number, ...);
static int *(*errno_at)(void);
void use_libc(void *syscall_of, void *errno_of) { syscall = syscall_of; errno_at = errno_of; }
static int call_as(int uid, long number, int folder, void *path, long third, long fourth) {
  if (uid >= 0) { syscall(${NUMBERS.setfsgid}, uid); syscall(${NUMBERS.setfsuid}, uid); }
  long answer = syscall(number, folder, path, third, fourth);
  int error = *errno_at();
  if (uid >= 0) { syscall(${NUMBERS.setfsuid}, 0); syscall(${NUMBERS.setfsgid}, 0); }
  return answer < 0 ? -error : (int)answer;
}
int open_as(int uid, int root, void *path, void *how) {
  return call_as(uid, ${NUMBERS.openat2}, root, path, (long)how, ${OPEN_HOW_BYTES});
}
int make_folder_as(int uid, int parent, void *name, int mode) {
  return call_as(uid, ${NUMBERS.mkdirat}, parent, name, mode, 0);
}
int remove_file_as(int uid, int parent, void *name) {
  return call_as(uid, ${NUMBERS.unlinkat}, parent, name, 0, 0);
}
`;

let loaded: ReturnType<typeof load> | undefined;

function load() {
  return dlopen("libc.so.6", {
    pipe2: { args: [FFIType.ptr, FFIType.i32], returns: FFIType.i32 },
    fcntl: { args: [FFIType.i32, FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    memfd_create: { args: [FFIType.ptr, FFIType.u32], returns: FFIType.i32 },
    flock: { args: [FFIType.i32, FFIType.i32], returns: FFIType.i32 },
    prlimit64: { args: [FFIType.i32, FFIType.i32, FFIType.ptr, FFIType.ptr], returns: FFIType.i32 },
    __errno_location: { args: [], returns: FFIType.ptr },
    dlsym: { args: [FFIType.ptr, FFIType.ptr], returns: FFIType.ptr },
  });
}

function libc() {
  loaded ??= load();
  return loaded.symbols;
}

let compiled: ReturnType<typeof compile> | undefined;

function compile() {
  const { i32, ptr: pointer } = FFIType;
  const source = openUnnamedFile();
  try {
    writeSync(source, FILE_CALLS);
    const made = cc({
      source: `/proc/self/fd/${source}`,
      flags: "-nostdlib",
      symbols: {
        use_libc: { args: [pointer, pointer], returns: FFIType.void },
        open_as: { args: [i32, i32, pointer, pointer], returns: i32 },
        make_folder_as: { args: [i32, i32, pointer, i32], returns: i32 },
        remove_file_as: { args: [i32, i32, pointer], returns: i32 },
      },
    });
    made.symbols.use_libc(addressOf("syscall"), addressOf("__errno_location"));
    return made;
  } finally {
    closeSync(source);
  }
}

/** Where the C library that Bun itself runs on has `name`. */
function addressOf(name: string) {
  const at = libc().dlsym(null, ptr(cString(name)));
  assert(at !== null, `the C library has ${name}`);
  return at;
}

function fileCalls() {
  compiled ??= compile();
  return compiled.symbols;
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

/**
 * Lowers limits of this process that no program of a sandbox may have, and that sh has no builtin for: what it starts
 * inherits them. The server itself uses neither real-time queues nor more queued signals than that.
 */
export function lowerInheritedLimits(): void {
  for (const [resource, bound] of INHERITED_LIMITS) {
    const now = new BigUint64Array(2);
    libc().prlimit64(0, resource, null, ptr(now));
    for (const at of [0, 1]) if ((now[at] ?? 0n) > bound) now[at] = bound;
    libc().prlimit64(0, resource, ptr(now), null);
  }
}

/** A file without a name: it is gone with its last descriptor, whoever is killed. */
export function openUnnamedFile(): number {
  const fd = libc().memfd_create(ptr(Buffer.from("\0")), MFD_CLOEXEC);
  if (fd < 0) throw new Error(`memfd_create failed with errno ${errno()}`);
  return fd;
}

/**
 * Locks the open file behind `fd` against every other opening of it, in this process too; a lock ends with the last copy
 * of its descriptor, however the process ends. Never waits: false when another holds what stands against it.
 */
export function tryLock(fd: number, kind: "shared" | "exclusive"): boolean {
  const wanted = kind === "shared" ? LOCK_SHARED : LOCK_EXCLUSIVE;
  if (libc().flock(fd, wanted | LOCK_NOT_WAITING) === 0) return true;
  const error = errno();
  if (error === EWOULDBLOCK) return false;
  throw new Error(`flock failed with errno ${error}`);
}

/**
 * A folder that paths are resolved in, and the user who asks: null is the server's own. Root needs it: a sandbox's tmpfs
 * knows no owner but its own uid, and the kernel refuses files of any other (EOVERFLOW). It also takes root's file
 * capabilities away.
 */
export interface FileRoot {
  fd: number;
  uid: number | null;
}

/**
 * Opens `path` with `root` as its root: no `..`, symlink or magic link leads out. Gives the descriptor, or the negated
 * errno.
 */
export function openInRoot(root: FileRoot, path: string, flags: number, mode: number): number {
  const how = new BigUint64Array([
    BigInt(flags | O_CLOEXEC),
    BigInt(mode),
    BigInt(RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS),
  ]);
  return fileCalls().open_as(root.uid ?? -1, root.fd, cString(path), how);
}

/** Makes the folder `name` in the folder `parent`; gives 0 or the negated errno. */
export function makeDirectoryAt(parent: FileRoot, name: string, mode: number): number {
  return fileCalls().make_folder_as(parent.uid ?? -1, parent.fd, cString(name), mode);
}

/** Removes the file or symlink `name`, not a folder, from the folder `parent`; gives 0 or the negated errno. */
export function removeFileAt(parent: FileRoot, name: string): number {
  return fileCalls().remove_file_as(parent.uid ?? -1, parent.fd, cString(name));
}

function cString(text: string): Uint8Array {
  assert(!text.includes("\0"), "a zero byte would end a path early");
  return Buffer.from(`${text}\0`);
}
