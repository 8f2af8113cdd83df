import { existsSync } from "node:fs";
import { assert } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { ARGUMENTS_FD, type RootLayout, TERMINALS_FOLDER } from "./bwrap-args.ts";
import type { SandboxImage } from "./image.ts";
import type { SandboxLimits } from "./sandbox.ts";

/**
 * The two-stage start. Stage 1 makes a user and a mount namespace, mounts the sandbox's own tmpfs (bytes and inodes
 * bound) and on it the overlay of the image, and sets resource limits; there bwrap starts. Limits come after the
 * namespace: the kernel counts processes by user namespace, so they then bind this sandbox and not the whole uid.
 * What a builtin can do is no process: each costs half a millisecond of every start.
 */
const TMPFS = `mount -n -i -t tmpfs -o "size=$SIZE,nr_inodes=$INODES,mode=0755" tmpfs "$ROOT" || exit 98`;

/**
 * All sandboxes together have 3,072 pseudo-terminals (kernel.pty.max): bwrap's own file system of them knows no less, so one
 * sandbox would leave none to others. Mounted beside what comes next, which saves most of its millisecond.
 */
const TERMINALS = `mount -n -i -t devpts -o newinstance,ptmxmode=0666,mode=620,max=${LIMITS.sandboxTerminalsMax} devpts ${TERMINALS_FOLDER} &`;
const TERMINALS_MOUNTED = "wait $! || exit 98";

/**
 * A folder of the upper layer hides a file or symlink that the image has in its place, and is merged with a folder: these
 * are there on any image. `-m` is for the last name of a path alone, so the root of it all is 0755.
 */
const FOLDERS = `cd "$ROOT" && mkdir -p -m 1777 shm work merged upper/tmp upper/run upper/workspace upper/proc upper/dev || exit 98`;

/** The shell closes single digits alone, so a snapshot has this one. */
export const SNAPSHOT_FD = 3;

/** Of what tar says of files that it cannot unpack. */
const RESTORE_WORDS_MAX = 1_000;

/** An agent wrote the layer: nothing but tar goes into it here, and bwrap takes it as the root of all its paths. */
const RESTORED_FOLDERS = `cd "$ROOT" && mkdir -p -m 1777 shm work merged upper || exit 98`;
/** Tar writes names as they are: one with a line break in it would say `up` here, where PID 1 says so. Hence one line. */
const RESTORE = `said=$({ tar --extract --file=- --directory=upper --numeric-owner --no-same-owner --same-permissions --xattrs --xattrs-include='user.*' --warning=none <&${SNAPSHOT_FD} && echo done; } 2>&1 | head -c ${RESTORE_WORDS_MAX} | tr '\\n' ' ')
[ "$said" = "done " ] || {
  printf 'its snapshot cannot be unpacked: %s\\n' "$said"
  exit 98
}
unset said
exec ${SNAPSHOT_FD}<&-`;

/** Descriptors in place of the lower folders' paths: /proc/mounts in the sandbox shows what stands here. */
const LOWER_FDS = [3, 4, 5, 6, 7, 8, 9];

/** A user may not have as many descriptors to give: then all that there are. `-p` of dash and busybox is `-u` in bash. */
const RLIMITS = `ulimit -c 0 && ulimit -l 0 && ulimit -r 0 && ulimit -f "$FILE_BLOCKS" && ulimit -S -t "$CPU_SECONDS" && ulimit -H -t "$CPU_HARD" || exit 98
[ -z "$ADDRESS_KB" ] || ulimit -v "$ADDRESS_KB" || exit 98
ulimit -n "$FILES" 2>/dev/null || ulimit -n "$(ulimit -Hn)" || exit 98
ulimit -p "$PROCESSES" 2>/dev/null || ulimit -u "$PROCESSES" || exit 98`;

/**
 * The user's watchers (fs.inotify.max_user_instances, 128 by default) are counted over all its sandboxes, so each gets a
 * part of them. A container may have made the setting read-only.
 */
const WATCHERS = `{ echo ${LIMITS.sandboxWatchersMax} >/proc/sys/user/max_inotify_instances; } 2>/dev/null
{ echo ${LIMITS.sandboxWatchesMax} >/proc/sys/user/max_inotify_watches; } 2>/dev/null`;

/** What bwrap starts with is for the sandbox to read. */
const UNSET = "unset PATH ROOT SIZE INODES PROCESSES FILES FILE_BLOCKS CPU_SECONDS CPU_HARD ADDRESS_KB";

const FILE_BLOCK_BYTES = 512;

/** Any folder that exists everywhere does: it is covered in the sandbox's own mount namespace only. */
const ROOT_CANDIDATES = ["/mnt", "/srv", "/tmp"];

export interface StageOptions {
  bwrapPath: string;
  /** The uid to become; null when the server already runs as an ordinary user. */
  sandboxUid: number | null;
  limits: SandboxLimits;
  /** Whether a cgroup bounds the memory of all processes together; each process is bounded otherwise. */
  isMemoryGrouped: boolean;
  /** The sandbox's descriptor on which stage 1 waits for a line, until it was moved into its cgroup; null: it is in none. */
  gateFd: number | null;
  /** Whether `SNAPSHOT_FD` is an archive that the writable layer begins with. */
  isRestored: boolean;
}

/** Where stage 1 puts the root of a sandbox on `image`. */
export function stageLayout(image: SandboxImage, isRestored: boolean): RootLayout {
  const mount = stageMount();
  const [hasOverlay, sharedMemory, layer] = [image.lower.length > 0, `${mount}/shm`, `${mount}/upper`];
  if (hasOverlay) return { root: `${mount}/merged`, sharedMemory, layer, isRestored };
  if (isRestored) return { root: layer, sharedMemory, layer, isRestored };
  return { root: mount, sharedMemory: null, layer: mount, isRestored };
}

/**
 * The command that ends in bwrap running `command` as PID 1; one process all the way, each step replaces the last. It is
 * started as `sandboxUid` already: kernel uid 0 is never in a sandbox, nor before it.
 */
export function stageArgv(options: StageOptions, image: SandboxImage, command: readonly string[]): string[] {
  return [
    "/usr/bin/unshare",
    "--user",
    "--map-root-user",
    "--mount",
    "--propagation",
    "private",
    "/bin/sh",
    "-c",
    stageScript(image, options),
    "stage1",
    options.bwrapPath,
    "--args",
    String(ARGUMENTS_FD),
    "--",
    ...command,
  ];
}

/** The whole environment of the stages: the sandbox could read it as that of a process it shares a name with. */
export function stageEnv({ limits, isMemoryGrouped }: StageOptions, image: SandboxImage): Record<string, string> {
  const lower = image.lower.map((folder, at) => [`LOWER_${at}`, folder]);
  return {
    PATH: "/usr/bin:/bin",
    ROOT: stageMount(),
    SIZE: String(limits.diskBytes),
    INODES: String(limits.inodesMax),
    // The supervisors of the sandbox and bwrap itself are counted too.
    PROCESSES: String(limits.pidsMax + LIMITS.sandboxOwnProcesses),
    FILES: String(limits.openFilesMax),
    FILE_BLOCKS: String(Math.ceil(limits.fileBytes / FILE_BLOCK_BYTES)),
    // SIGXCPU comes first, which says what happened; one that does not heed it is killed a second later.
    CPU_SECONDS: String(Math.ceil(limits.cpuMs / 1_000)),
    CPU_HARD: String(Math.ceil(limits.cpuMs / 1_000) + 1),
    ADDRESS_KB: isMemoryGrouped ? "" : String(Math.ceil(limits.memoryBytes / 1_024)),
    ...Object.fromEntries(lower),
  };
}

function stageScript({ lower }: SandboxImage, { gateFd, isRestored }: StageOptions): string {
  const folders = isRestored ? [RESTORED_FOLDERS] : lower.length > 0 ? [FOLDERS] : [];
  // The move goes on beside what comes before. A server that dies closes the pipe.
  const gate = gateFd === null ? [] : [`read -r go <&${gateFd} || exit 97`];
  const restore = isRestored ? [RESTORE] : [];
  const overlay = lower.length > 0 ? [overlayOf(lower.length)] : [];
  const unset = UNSET + lower.map((_, at) => ` LOWER_${at}`).join("");
  const mounts = [TERMINALS, TMPFS, ...folders, ...gate, ...restore, ...overlay, TERMINALS_MOUNTED];
  return [...mounts, RLIMITS, WATCHERS, unset, 'exec "$@"'].join("\n");
}

function overlayOf(count: number): string {
  const fds = LOWER_FDS.slice(0, count);
  assert(fds.length === count, `an image has at most ${LOWER_FDS.length} lower folders`);
  const lower = fds.map((fd) => `/proc/self/fd/${fd}`).join(":");
  const redirections = fds.map((fd, at) => `${fd}<"$LOWER_${at}"`).join(" ");
  const options = `userxattr,nosuid,nodev,lowerdir=${lower},upperdir=upper,workdir=work`;
  return `mount -n -i -t overlay -o ${options} overlay merged ${redirections} || exit 98`;
}

/** The folder that stage 1 covers: what lies below it no sandbox sees by its path. */
export function stageMount(): string {
  const root = ROOT_CANDIDATES.find((folder) => existsSync(folder));
  assert(root !== undefined, "one of /mnt, /srv and /tmp exists");
  return root;
}
