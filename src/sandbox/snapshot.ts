import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { startProcess, unnamedFileOf } from "./process.ts";

/**
 * The writable layer of a sandbox as an archive. It is read as the sandbox's own uid inside stage 1's user namespace, where
 * that uid may read what the agent forbade itself (a file of mode 0), and nothing else.
 */

const O_PATH = 0o10000000;
const BLOCK_BYTES = 512;
const ERROR_CHARS_MAX = 500;
/** Numbers of the descriptors in the archiving process. */
const [NAMESPACE_FD, FOLDER_FD] = [3, 4];

/** Stage 1's user namespace and the folder that sandbox processes write to, both good when the processes are gone. */
export class Layer implements Disposable {
  readonly namespaceFd: number;
  readonly folderFd: number;

  private constructor(fds: { namespaceFd: number; folderFd: number }) {
    this.namespaceFd = fds.namespaceFd;
    this.folderFd = fds.folderFd;
  }

  /** `folder` as the process `pid` sees it, which must be in stage 1's namespaces. Throws when it is gone. */
  static open(pid: number, folder: string): Layer {
    const namespaceFd = openSync(`/proc/${pid}/ns/user`, constants.O_RDONLY);
    try {
      const folderFd = openSync(`/proc/${pid}/root${folder}`, O_PATH | constants.O_DIRECTORY);
      return new Layer({ namespaceFd, folderFd });
    } catch (error) {
      closeSync(namespaceFd);
      throw error;
    }
  }

  [Symbol.dispose](): void {
    closeSync(this.namespaceFd);
    closeSync(this.folderFd);
  }
}

export interface ArchiveOptions {
  /** Where the archive is written. */
  fileFd: number;
  bytesMax: number;
  sandboxUid: number | null;
  signal: AbortSignal;
}

/**
 * Shared memory of a sandbox without an overlay lies in its root. POSIX format for long names and times, `user.*`
 * attributes for the marks of an overlay; a whiteout is a device that tar takes like any other.
 */
const TAR = [
  "tar",
  "--create",
  "--file=-",
  "--format=posix",
  "--sparse",
  "--numeric-owner",
  "--one-file-system",
  "--xattrs",
  "--xattrs-include=user.*",
  "--exclude=./run/shm/*",
  "--warning=no-file-ignored",
  `--directory=/proc/self/fd/${FOLDER_FD}`,
  ".",
];
const ENTER = ["/usr/bin/nsenter", `--user=/proc/self/fd/${NAMESPACE_FD}`, "--preserve-credentials", "--"];

/** Writes the archive. Throws RolloutError sandbox_limit when it is over `bytesMax` or the layer cannot be read. */
export async function archiveLayer(layer: Layer, options: ArchiveOptions): Promise<void> {
  const { fileFd, bytesMax, sandboxUid, signal } = options;
  signal.throwIfAborted();
  const errorsFd = unnamedFileOf(new Uint8Array());
  try {
    const bounded = `ulimit -c 0 && ulimit -f ${Math.ceil(bytesMax / BLOCK_BYTES)} && exec "$@"`;
    const archiver = startProcess({
      argv: ["/bin/sh", "-c", bounded, "archive", ...ENTER, ...TAR],
      env: { PATH: "/usr/bin:/bin", LC_ALL: "C" },
      uid: sandboxUid,
      stdio: [null, fileFd, errorsFd, layer.namespaceFd, layer.folderFd],
    });
    const onAbort = () => archiver.kill("SIGKILL");
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    const end = await archiver.exited;
    signal.removeEventListener("abort", onAbort);
    signal.throwIfAborted();
    if (end.exitCode === 0) return;
    const said = readFileSync(`/proc/self/fd/${errorsFd}`, "utf8").trim().slice(0, ERROR_CHARS_MAX);
    const why =
      end.signal === "SIGXFSZ" ? `it has more than ${bytesMax} bytes` : said || `tar ended with ${end.signal}`;
    throw new RolloutError("sandbox_limit", `the writable layer cannot be archived: ${why}`);
  } finally {
    closeSync(errorsFd);
  }
}

/** Most bytes of one snapshot: what its disk can hold, and the headers of tar. */
export function snapshotBytesMax({ diskBytes, inodesMax }: { diskBytes: number; inodesMax: number }): number {
  return Math.min(LIMITS.snapshotBytesMax, diskBytes + inodesMax * LIMITS.snapshotHeaderBytes);
}
