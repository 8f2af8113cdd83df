import { existsSync } from "node:fs";
import { assert } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { ARGUMENTS_FD } from "./bwrap-args.ts";
import type { SandboxLimits } from "./sandbox.ts";

/**
 * The two-stage start. Stage 1 makes a user and a mount namespace, mounts the sandbox's own tmpfs (bytes and inodes
 * bound) and sets resource limits; there bwrap starts. Limits come after the namespace: the kernel counts processes
 * by user namespace, so they then bind this sandbox and not the whole uid.
 */
const STAGE_1 = `mount -n -i -t tmpfs -o "size=$SIZE,nr_inodes=$INODES,mode=0755" tmpfs "$ROOT" && mkdir -p -m 1777 "$ROOT/run/shm" || exit 98
unset SIZE INODES ROOT
exec prlimit --core=0 --memlock=0 --msgqueue=0 --rtprio=0 --nice=0 --sigpending=1024 \
  "--nproc=$PROCESSES" "--nofile=$FILES" "--fsize=$FILE_SIZE" "--as=$ADDRESS_SPACE" -- "$@"`;

/** Any folder that exists everywhere does: it is covered in the sandbox's own mount namespace only. */
const ROOT_CANDIDATES = ["/mnt", "/srv", "/tmp"];

export interface StageOptions {
  bwrapPath: string;
  /** The uid to become; null when the server already runs as an ordinary user. */
  sandboxUid: number | null;
  limits: SandboxLimits;
}

/** Where stage 1 mounts the root of a sandbox. */
export function stageRoot(): string {
  const root = ROOT_CANDIDATES.find((folder) => existsSync(folder));
  assert(root !== undefined, "one of /mnt, /srv and /tmp exists");
  return root;
}

/**
 * The command that ends in bwrap running `command` as PID 1; one process all the way, each step replaces the last. It is
 * started as `sandboxUid` already: kernel uid 0 is never in a sandbox, nor before it.
 */
export function stageArgv(options: StageOptions, command: readonly string[]): string[] {
  return [
    "/usr/bin/unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--propagation",
    "private",
    "/bin/sh",
    "-c",
    STAGE_1,
    "stage1",
    options.bwrapPath,
    "--args",
    String(ARGUMENTS_FD),
    "--",
    ...command,
  ];
}

/** The whole environment of the stages: the sandbox could read it as that of a process it shares a name with. */
export function stageEnv({ limits }: StageOptions): Record<string, string> {
  return {
    PATH: "/usr/bin:/bin",
    ROOT: stageRoot(),
    SIZE: String(limits.diskBytes),
    INODES: String(LIMITS.sandboxInodesMax),
    // The supervisors of the sandbox and bwrap itself are counted too.
    PROCESSES: String(limits.pidsMax + LIMITS.sandboxOwnProcesses),
    FILES: String(LIMITS.sandboxOpenFilesMax),
    FILE_SIZE: String(limits.diskBytes),
    ADDRESS_SPACE: String(limits.memoryBytes),
  };
}
