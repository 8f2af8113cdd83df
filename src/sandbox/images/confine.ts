import { existsSync } from "node:fs";
import { IMAGE_LIMITS } from "../../limits.ts";
import { createHostImage } from "../host-image.ts";

/** What a program of a build sees of the machine, and what it may do. */
export interface Confinement {
  bwrapPath: string;
  /** Options of bwrap that put the root together; `hostView()` for this machine's programs. */
  view: readonly string[];
  /** Whole environment of the program. */
  env: Readonly<Record<string, string>>;
  /** A descriptor with a seccomp filter; null for none. */
  filterFd: number | null;
  /** Lets it mount and change its root, inside its own namespaces only. */
  mounts: boolean;
  /** Lets it reach the network of this machine. */
  network: boolean;
}

/** Names and certificates that programs with a network need; nothing secret is among them. */
const NETWORK_FILES = [
  "/etc/resolv.conf",
  "/etc/hosts",
  "/etc/nsswitch.conf",
  "/etc/ssl",
  "/etc/ca-certificates",
  "/etc/pki",
];
const RESOLVER = "/etc/resolv.conf";
const USER_FILES = ["/etc/passwd", "/etc/group"];

const KERNEL_FOLDERS = ["--proc", "/proc", "--dev", "/dev"];
const EMPTY_FOLDERS = ["--tmpfs", "/tmp", "--tmpfs", "/run"];
const NAMESPACES = ["user", "pid", "ipc", "uts", "cgroup-try"].map((name) => `--unshare-${name}`);
const ROOT_OF_ITS_OWN = ["--uid", "0", "--gid", "0", "--die-with-parent", "--new-session", "--hostname", "sandbox"];
/** Whatever our own umask is, the files have the modes that the program means. */
const WITH_UMASK = ["/bin/sh", "-c", 'umask 022; unset PWD; exec "$0" "$@"'];

/** Counted inside the namespace, so only its own are; dash and busybox call it `-p`, bash `-u`. */
const WITH_PROCESS_LIMIT = [
  "/bin/sh",
  "-c",
  `ulimit -p ${IMAGE_LIMITS.stepProcessesMax} 2>/dev/null || ulimit -u ${IMAGE_LIMITS.stepProcessesMax}; exec "$0" "$@"`,
];

export interface HostViewOptions {
  /** Becomes `/tmp`. */
  work: string;
  /** Further files and folders of this machine to show, where they are there. */
  shown?: readonly string[];
  /** Further options of bwrap that mount. */
  mounts?: readonly string[];
}

/** This machine's programs, read-only; no home, no data of anyone. Only `work` and what `mounts` says can be written. */
export function hostView({ work, shown = [], mounts = [] }: HostViewOptions): string[] {
  const files = [...NETWORK_FILES, ...USER_FILES, ...shown].filter((path) => existsSync(path));
  const bound = files.flatMap((path) => ["--ro-bind", path, path]);
  // After `/tmp`: one of the files may lie below it.
  const own = createHostImage({ usrLocal: false }).mounts;
  // The root is a tmpfs without bounds.
  return [...own, ...KERNEL_FOLDERS, "--bind", work, "/tmp", ...bound, ...mounts, "--remount-ro", "/"];
}

/** An unfinished root filesystem, writable, as programs that run in it see it. */
export function rootView(rootfs: string): string[] {
  const names = existsSync(RESOLVER) ? ["--ro-bind", RESOLVER, RESOLVER] : [];
  return ["--bind", rootfs, "/", ...KERNEL_FOLDERS, ...EMPTY_FOLDERS, ...names];
}

/**
 * The command that runs `argv` with namespaces of its own, as uid 0 of them and as nobody outside. All that it starts dies
 * with it, and it with us. Memory and sizes of files are bounded for each process.
 */
export function confinedArgv(confinement: Confinement, argv: readonly string[]): string[] {
  const { bwrapPath, view, env, filterFd, mounts, network } = confinement;
  const limits = [`--as=${IMAGE_LIMITS.stepMemoryBytes}`, `--fsize=${IMAGE_LIMITS.fileBytesMax}`, "--core=0"];
  const environment = Object.entries(env).flatMap(([name, value]) => ["--setenv", name, value]);
  return [
    ...WITH_UMASK,
    "/usr/bin/prlimit",
    ...limits,
    "--",
    bwrapPath,
    ...NAMESPACES,
    ...(network ? [] : ["--unshare-net"]),
    ...ROOT_OF_ITS_OWN,
    mounts ? "--cap-add" : "--cap-drop",
    "ALL",
    ...view,
    "--clearenv",
    ...environment,
    "--chdir",
    "/",
    ...(filterFd === null ? [] : ["--seccomp", String(filterFd)]),
    "--",
    ...WITH_PROCESS_LIMIT,
    ...argv,
  ];
}
