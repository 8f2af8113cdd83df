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

/** Options of bwrap for `--args`: all namespaces, no capability, no network. The order is the order of mounting. */
export function bwrapArgs({ image, root, env }: BwrapArgsOptions): string[] {
  const variables = { PATH: image.path, HOME: "/root", LANG: "C.UTF-8", TERM: "dumb", ...env };
  return [
    ...["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup-try"],
    ...["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--as-pid-1", "--hostname", "sandbox"],
    ...["--bind", root, "/"],
    ...image.mounts,
    ...["--proc", "/proc", "--dev", "/dev"],
    // A tmpfs of bwrap bounds bytes but not inodes (1 kB of kernel memory each), so shared memory lives on the root,
    // in a folder that stage 1 made: bwrap looks for its sources before it makes anything.
    ...["--bind", `${root}/run/shm`, "/dev/shm"],
    // bwrap's /dev is a writable tmpfs of half the machine's memory.
    ...["--remount-ro", "/dev"],
    "--clearenv",
    ...Object.entries(variables).flatMap(([name, value]) => ["--setenv", name, value]),
    ...["--chdir", "/", "--seccomp", String(SECCOMP_FD)],
  ];
}

/** The bytes that `--args` reads: each option ends with a zero byte. */
export function encodeArgs(args: readonly string[]): Uint8Array {
  return Buffer.from(args.map((arg) => `${arg}\0`).join(""));
}
