import {
  closeSync,
  constants,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { Clock } from "../clock.ts";
import { newId } from "../ids.ts";
import { tryLock } from "../libc.ts";
import { LIMITS } from "../limits.ts";
import type { Log } from "../log.ts";
import { BoxGroup, emptied, type GroupFolder } from "./cgroup-box.ts";
import { CONTROLLERS, type Controller, type GroupPlace, groupPlaces } from "./cgroup-tree.ts";
import { type StartedProcess, startProcess } from "./process.ts";
import type { SandboxLimits } from "./sandbox.ts";

const OWNER_PREFIX = "rolloutd-";
const TRIAL_LIMITS: SandboxLimits = {
  memoryBytes: 1 << 28,
  diskBytes: 1 << 20,
  inodesMax: 1_000,
  pidsMax: 8,
  openFilesMax: 64,
  fileBytes: 1 << 20,
  cpuMs: 1_000,
};
/** Sweeps of one folder of a dead server: its processes are gone or killed at once. */
const SWEEPS_MAX = 200;
const SWEEP_MS = 5;
/** A neighbour that sweeps may take a folder between its making and its locking. */
const MAKE_TRIES_MAX = 5;

/** A folder of this server in one hierarchy, held by a lock that ends with the process, however it ends. */
interface OwnFolder extends GroupFolder {
  lockFd: number;
}

/** The control groups of a server's sandboxes. `openCgroups` is the only way to make one. */
export class Cgroups implements AsyncDisposable {
  readonly #own: readonly OwnFolder[];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #closing = new AbortController();
  /** Those that may be favoured now. */
  readonly #favoured = new Set<BoxGroup>();
  #watching: Promise<void> | null = null;
  #made = 0;

  constructor(own: readonly OwnFolder[], { clock, log }: { clock: Clock; log: Log }) {
    this.#own = own;
    this.#clock = clock;
    this.#log = log;
  }

  /** What the groups bound for each sandbox as a whole. */
  get controllers(): readonly Controller[] {
    return this.#own.flatMap(({ controllers }) => controllers);
  }

  /** Where they are, for people. */
  get folders(): readonly string[] {
    return this.#own.map(({ folder }) => folder);
  }

  /** Makes the groups of one sandbox. Throws when they cannot be made. */
  create(limits: SandboxLimits): BoxGroup {
    this.#made += 1;
    const group = BoxGroup.create(this.#own, `box-${this.#made}`, limits);
    this.favour(group);
    return group;
  }

  /**
   * Lets a sandbox go before others for `favourMs`: at the begin of each call, so that short calls are quick beside busy
   * sandboxes. With equal shares alone, each step of a call waits until a busy one's turn is over, which takes 3 ms.
   */
  favour(group: BoxGroup): void {
    group.favour(performance.now() + LIMITS.favourMs);
    this.#favoured.add(group);
    this.#watching ??= this.#watch().finally(() => {
      this.#watching = null;
    });
  }

  async #watch(): Promise<void> {
    while (this.#favoured.size > 0 && !this.#closing.signal.aborted) {
      await this.#clock.sleep(LIMITS.favourMs, this.#closing.signal);
      for (const group of this.#favoured) if (group.yieldAt(performance.now())) this.#favoured.delete(group);
    }
  }

  /** Removes the groups of a sandbox whose processes are gone; never rejects. */
  async remove(group: BoxGroup): Promise<void> {
    this.#favoured.delete(group);
    const isGone = await group.remove(this.#clock);
    if (!isGone) this.#log.error("sandbox:group_stays", { folders: this.folders });
  }

  /** Removes this server's folders, once its sandboxes are gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the server is closing"));
    await this.#watching;
    for (const { folder, lockFd } of this.#own) {
      await sweepFolder(folder, this.#clock);
      closeSync(lockFd);
    }
  }
}

export interface CgroupOptions {
  /** The uid that sandboxes run as; null is the server's own. */
  sandboxUid: number | null;
  clock: Clock;
  log: Log;
}

/**
 * Finds out where this server may make groups by making one, moving a process of the sandboxes' user into it and
 * removing it. First removes what killed servers left there. Null when no controller can be had; never rejects.
 */
export async function openCgroups(options: CgroupOptions): Promise<Cgroups | null> {
  const texts = { mountinfo: selfText("mountinfo"), cgroup: selfText("cgroup") };
  const missing = new Set<Controller>(CONTROLLERS);
  const own: OwnFolder[] = [];
  for (const place of groupPlaces(texts, process.getuid?.() === 0)) {
    const wanted = place.controllers.filter((name) => missing.has(name));
    if (wanted.length === 0) continue;
    const folder = await openPlace({ ...place, controllers: wanted }, options);
    if (folder === null) continue;
    own.push(folder);
    for (const name of folder.controllers) missing.delete(name);
  }
  return own.length === 0 ? null : new Cgroups(own, options);
}

/** Null when no group can be made, bounded or entered there. */
async function openPlace(place: GroupPlace, options: CgroupOptions): Promise<OwnFolder | null> {
  await sweep(place.folder, options.clock);
  const controllers = place.version === 2 ? enabled(place.folder, place.controllers) : place.controllers;
  if (controllers.length === 0) return null;
  const made = makeOwn(place.folder, options.clock);
  if (made === null) return null;
  const own = { ...made, version: place.version, controllers };
  if (place.version === 2) own.controllers = enabled(own.folder, controllers);
  if (own.controllers.length > 0 && (await isUsable(own, options))) return own;
  await sweepFolder(own.folder, options.clock);
  closeSync(own.lockFd);
  return null;
}

/** Makes and locks `rolloutd-ID`. The lock is looked at by others before they remove the folder. */
function makeOwn(parent: string, clock: Clock): { folder: string; lockFd: number } | null {
  for (let tries = 0; tries < MAKE_TRIES_MAX; tries += 1) {
    const folder = join(parent, `${OWNER_PREFIX}${newId("box", clock.nowMs())}`);
    let lockFd = -1;
    try {
      mkdirSync(folder);
      lockFd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
      if (tryLock(lockFd, "exclusive") && statSync(folder).ino === fstatSync(lockFd).ino) return { folder, lockFd };
    } catch {
      if (lockFd < 0) return null; // not ours to write: EACCES, EROFS, EPERM
    }
    closeSync(lockFd);
  }
  return null;
}

/** Asks a version 2 group to give its controllers to those below; those that it then gives. */
function enabled(folder: string, wanted: readonly Controller[]): Controller[] {
  return wanted.filter((name) => {
    try {
      writeFileSync(join(folder, "cgroup.subtree_control"), `+${name}`);
      return true;
    } catch {
      return false; // EBUSY: it has processes of its own; EACCES; ENOENT: no such controller here
    }
  });
}

async function isUsable(own: GroupFolder, { sandboxUid, clock }: CgroupOptions): Promise<boolean> {
  let group: BoxGroup;
  try {
    group = BoxGroup.create([own], "trial", TRIAL_LIMITS);
  } catch {
    return false;
  }
  let trial: StartedProcess | null = null;
  try {
    // Throws where this user namespace does not know the uid of sandboxes.
    trial = startProcess({ argv: ["/bin/sleep", "60"], env: {}, uid: sandboxUid, stdio: [null, null, null] });
    group.join(trial.pid);
    return true;
  } catch {
    return false;
  } finally {
    trial?.kill("SIGKILL");
    await trial?.exited;
    await group.remove(clock);
  }
}

/** Removes the folders of servers that no longer run: a living one holds its lock. */
async function sweep(parent: string, clock: Clock): Promise<void> {
  for (const name of namesIn(parent)) {
    if (!name.startsWith(OWNER_PREFIX)) continue;
    const folder = join(parent, name);
    let fd: number;
    try {
      fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
    } catch {
      continue; // gone meanwhile, or another user's
    }
    try {
      if (tryLock(fd, "exclusive")) await sweepFolder(folder, clock);
    } finally {
      closeSync(fd);
    }
  }
}

/** Kills and removes the groups below `folder` and itself; one that stays is left for the next start. */
async function sweepFolder(folder: string, clock: Clock): Promise<void> {
  for (let tries = 0; tries < SWEEPS_MAX; tries += 1) {
    for (const name of namesIn(folder)) emptied(join(folder, name));
    if (emptied(folder)) return;
    await clock.sleep(SWEEP_MS);
  }
}

/** Folders alone: the kernel's own files in a group are none. */
function namesIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
  } catch {
    return [];
  }
}

function selfText(name: string): string {
  try {
    return readFileSync(`/proc/self/${name}`, "utf8");
  } catch {
    return "";
  }
}
