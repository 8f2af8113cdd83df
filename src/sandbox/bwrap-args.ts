import type { SandboxImage } from "./image.ts";

/** A descriptor that bwrap itself reads and closes. */
export const ARGUMENTS_FD = 4;

/** Where a sandbox works unless it is told otherwise; there on every image. */
export const DEFAULT_CWD = "/workspace";

/** Where things lie when bwrap starts. */
export interface RootLayout {
  /** What becomes `/` of the sandbox. */
  root: string;
  /** What becomes its `/dev/shm`; null where bwrap makes it on the root. */
  sharedMemory: string | null;
  /** What its processes write to: all of this makes a snapshot. */
  layer: string;
  /** Whether the layer was written by an agent before. */
  isRestored: boolean;
}

export interface BwrapArgsOptions {
  image: SandboxImage;
  layout: RootLayout;
  env: Readonly<Record<string, string>>;
  /** Where bwrap reads the filter; it closes it too. */
  seccompFd: number;
}

/** Options of an image with another number of arguments than one. */
const ARGUMENTS_OF = new Map([
  ["--symlink", 2],
  ["--bind", 2],
  ["--ro-bind", 2],
  ["--ro-bind-try", 2],
]);

const NAMESPACES = ["user", "pid", "ipc", "uts", "net", "cgroup-try"].map((name) => `--unshare-${name}`);
const CONFINED = ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--as-pid-1", "--hostname", "sandbox"];
/** Where stage 1 mounts a bounded file system of pseudo-terminals, and where they are in the sandbox. */
export const TERMINALS_FOLDER = "/dev/pts";

/** Uid 0 of a sandbox owns the settings of its own namespaces, such as how many segments of shared memory there may be. */
const CLOSED_SETTINGS = ["--ro-bind", "/proc/sys", "/proc/sys"];
const KERNEL_FOLDERS = [
  "--proc",
  "/proc",
  ...CLOSED_SETTINGS,
  "--dev",
  "/dev",
  "--dev-bind",
  TERMINALS_FOLDER,
  TERMINALS_FOLDER,
];

/** Options of bwrap for `--args`: all namespaces, no capability, no network. The order is the order of mounting. */
export function bwrapArgs({ image, layout, env, seccompFd }: BwrapArgsOptions): string[] {
  const home = image.uid === 0 ? "/root" : "/workspace";
  const variables = { PATH: image.path, HOME: home, LANG: "C.UTF-8", TERM: "dumb", ...image.env, ...env };
  const { root, isRestored } = layout;
  // bwrap's /dev is a writable tmpfs of half the machine's memory.
  const closedDevices = ["--remount-ro", "/dev"];
  const environment = Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
  return [
    ...NAMESPACES,
    ...CONFINED,
    "--uid",
    String(image.uid),
    "--gid",
    String(image.uid),
    "--bind",
    root,
    "/",
    ...(isRestored ? mountsAlone(image.mounts) : [...image.mounts, "--dir", DEFAULT_CWD]),
    ...KERNEL_FOLDERS,
    ...sharedMemory(layout),
    ...closedDevices,
    "--clearenv",
    ...environment,
    "--chdir",
    "/",
    "--seccomp",
    String(seccompFd),
  ];
}

/** Without the folders and links that the first start made: they are in the layer, as the agent left them. */
function mountsAlone(mounts: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < mounts.length; ) {
    const option = mounts[at] ?? "";
    const count = option === "--perms" ? 4 : 1 + (ARGUMENTS_OF.get(option) ?? 1);
    const made = option === "--perms" ? mounts[at + 2] : option;
    if (made !== "--dir" && made !== "--symlink") kept.push(...mounts.slice(at, at + count));
    at += count;
  }
  return kept;
}

/**
 * A tmpfs of bwrap bounds bytes but not inodes (1 kB of kernel memory each), so shared memory lies on that of stage 1.
 * On an empty root bwrap makes the folder, which saves stage 1 a process; `-try`, as bwrap looks for its sources first.
 */
function sharedMemory({ root, sharedMemory }: RootLayout): string[] {
  if (sharedMemory !== null) return ["--bind", sharedMemory, "/dev/shm"];
  return ["--perms", "1777", "--dir", "/run/shm", "--bind-try", `${root}/run/shm`, "/dev/shm"];
}

/** The bytes that `--args` reads: each option ends with a zero byte. */
export function encodeArgs(args: readonly string[]): Uint8Array {
  return Buffer.from(args.map((arg) => `${arg}\0`).join(""));
}
