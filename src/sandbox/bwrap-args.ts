import type { SandboxImage } from "./image.ts";

/** Descriptors that bwrap itself reads and closes. */
export const SECCOMP_FD = 3;
export const ARGUMENTS_FD = 4;

export interface BwrapArgsOptions {
  image: SandboxImage;
  /** Where stage 1 mounted the sandbox's tmpfs. */
  root: string;
  env: Readonly<Record<string, string>>;
}

const NAMESPACES = ["user", "pid", "ipc", "uts", "net", "cgroup-try"].map((name) => `--unshare-${name}`);
const CONFINED = ["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--as-pid-1", "--hostname", "sandbox"];
const KERNEL_FOLDERS = ["--proc", "/proc", "--dev", "/dev"];

/** Options of bwrap for `--args`: all namespaces, no capability, no network. The order is the order of mounting. */
export function bwrapArgs({ image, root, env }: BwrapArgsOptions): string[] {
  const variables = { PATH: image.path, HOME: "/root", LANG: "C.UTF-8", TERM: "dumb", ...env };
  // A tmpfs of bwrap bounds bytes but not inodes (1 kB of kernel memory each), so shared memory lives on the root,
  // in a folder that stage 1 made: bwrap looks for its sources before it makes anything.
  const sharedMemory = ["--bind", `${root}/run/shm`, "/dev/shm"];
  // bwrap's /dev is a writable tmpfs of half the machine's memory.
  const closedDevices = ["--remount-ro", "/dev"];
  const environment = Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]);
  return [
    ...NAMESPACES,
    ...CONFINED,
    "--bind",
    root,
    "/",
    ...image.mounts,
    ...KERNEL_FOLDERS,
    ...sharedMemory,
    ...closedDevices,
    "--clearenv",
    ...environment,
    "--chdir",
    "/",
    "--seccomp",
    String(SECCOMP_FD),
  ];
}

/** The bytes that `--args` reads: each option ends with a zero byte. */
export function encodeArgs(args: readonly string[]): Uint8Array {
  return Buffer.from(args.map((arg) => `${arg}\0`).join(""));
}
