import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { join } from "node:path";
import type { Clock } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { newId } from "../ids.ts";
import { tryLock } from "../libc.ts";
import { LIMITS } from "../limits.ts";
import type { SandboxSnapshot } from "./sandbox.ts";

const UNFINISHED = ".part";
const FINISHED = ".tar";
const CHUNK_BYTES = 1024 * 1024;

/**
 * Snapshots as files of one folder, which belongs to one server. A file has its name only once it is whole; what a killed
 * server left unfinished goes at the next start.
 */
export class SnapshotStore {
  readonly #folder: string;
  readonly #sandboxUid: number | null;
  readonly #clock: Clock;

  constructor(options: { folder: string; sandboxUid: number | null; clock: Clock }) {
    this.#folder = options.folder;
    this.#sandboxUid = options.sandboxUid;
    this.#clock = options.clock;
    for (const name of this.#names()) if (name.endsWith(UNFINISHED)) removeAbandoned(join(this.#folder, name));
  }

  /** Has `write` fill a new file and gives what is to be known of it; on failure or abort nothing is left. */
  async create(imageId: string, write: (fileFd: number) => Promise<void>): Promise<SandboxSnapshot> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const held = this.#names().reduce((sum, name) => sum + sizeOf(join(this.#folder, name)), 0);
    if (held > LIMITS.snapshotsBytesMax)
      throw new RolloutError("sandbox_limit", `snapshots hold ${held} bytes; at most ${LIMITS.snapshotsBytesMax}`);
    const id = newId("snp", this.#clock.nowMs());
    const unfinished = join(this.#folder, `${id}${UNFINISHED}`);
    const fd = openSync(unfinished, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      tryLock(fd, "exclusive"); // until it closes: another start sees that somebody writes it
      await write(fd);
      const { size } = fstatSync(fd);
      const snapshot = { id, imageId, bytes: size, sha256: await hashOf(fd) };
      // A sandbox's start reads it as the sandbox's user, through the descriptor that it is given.
      if (this.#sandboxUid !== null) fchownSync(fd, this.#sandboxUid, this.#sandboxUid);
      fchmodSync(fd, 0o400);
      renameSync(unfinished, this.#fileOf(id));
      return snapshot;
    } catch (error) {
      rmSync(unfinished, { force: true });
      throw error;
    } finally {
      closeSync(fd);
    }
  }

  /** A descriptor at the start of the snapshot's file. Throws RolloutError task_invalid when it is gone or not what it was. */
  async open(snapshot: SandboxSnapshot): Promise<number> {
    const file = this.#fileOf(snapshot.id);
    let fd: number;
    try {
      fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
    } catch (cause) {
      throw new RolloutError("task_invalid", `there is no snapshot ${snapshot.id}`, { cause });
    }
    try {
      if (fstatSync(fd).size === snapshot.bytes && (await hashOf(fd)) === snapshot.sha256) return fd;
      throw new RolloutError("task_invalid", `snapshot ${snapshot.id} was changed or cut off on disk`);
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  /** Removes all that are whole. */
  removeAll(): void {
    for (const name of this.#names()) if (name.endsWith(FINISHED)) rmSync(join(this.#folder, name), { force: true });
  }

  /** Removes a snapshot; one that is gone is no error. Sandboxes that were started from it live on. */
  remove(id: string): void {
    rmSync(this.#fileOf(id), { force: true });
  }

  #fileOf(id: string): string {
    if (!/^snp_\w+$/.test(id)) throw new RolloutError("task_invalid", `${JSON.stringify(id)} is no snapshot's id`);
    return join(this.#folder, `${id}${FINISHED}`);
  }

  #names(): string[] {
    try {
      return readdirSync(this.#folder);
    } catch {
      return []; // made with the first snapshot
    }
  }
}

/** The lock of who writes a file ends with its process, however that ends. */
function removeAbandoned(file: string): void {
  const fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    if (tryLock(fd, "exclusive")) rmSync(file, { force: true });
  } finally {
    closeSync(fd);
  }
}

/** SHA-256 in hex. Reads by position, so that the descriptor stays at its start, and gives way between chunks. */
async function hashOf(fd: number): Promise<string> {
  const hash = new Bun.CryptoHasher("sha256");
  const { size } = fstatSync(fd);
  const file = Bun.file(`/proc/self/fd/${fd}`);
  for (let at = 0; at < size; at += CHUNK_BYTES) {
    hash.update(await file.slice(at, Math.min(size, at + CHUNK_BYTES)).arrayBuffer());
  }
  return hash.digest("hex");
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
