import type { Clock } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { newId } from "../ids.ts";
import { lowerInheritedLimits } from "../libc.ts";
import type { Log } from "../log.ts";
import { type BubblewrapSandbox, openSandbox } from "./bubblewrap-sandbox.ts";
import { DEFAULT_CWD } from "./bwrap-args.ts";
import type { CellHost } from "./cell-launch.ts";
import type { Cgroups } from "./cgroup.ts";
import { type Enforcement, enforcementOf } from "./enforcement.ts";
import type { ImageCatalog, ImageInfo, ImageLease, SandboxImage } from "./image.ts";
import type { NetworkHost } from "./network/sandbox-network.ts";
import { sweepSockets } from "./network/unnamed-socket.ts";
import { startProgram } from "./program.ts";
import type {
  ProgramOptions,
  Sandbox,
  SandboxEnd,
  SandboxHost,
  SandboxOptions,
  SandboxProgram,
  SandboxSnapshot,
} from "./sandbox.ts";
import type { SnapshotStore } from "./snapshot-store.ts";
import { type WarmKind, WarmPool } from "./warm-pool.ts";

export interface SandboxHostOptions {
  /** A bubblewrap of at least `BWRAP_VERSION_MIN` that `sandboxUid` can reach. */
  bwrapPath: string;
  /** The uid that sandboxes run as: required when the server is root, null when it is an ordinary user. */
  sandboxUid: number | null;
  images: ImageCatalog;
  network: NetworkHost;
  /** Bounds whole sandboxes; null: only what binds each process, its user namespace and its disk. Owned by the host. */
  groups: Cgroups | null;
  /** Where `snapshot` keeps layers; null: it is refused. */
  snapshots: SnapshotStore | null;
  /** Sandboxes kept started for those who ask next, of all images; 0 keeps none. They count as live, but give way. */
  warmMax: number;
  clock: Clock;
  log: Log;
  /** Live sandboxes at once; beyond it `open` and `start` reject with sandbox_lost. */
  sandboxesMax: number;
  /** The launcher's `sweepOrphans`; a function that does nothing where there is no PID namespace of our own. */
  sweepOrphans: () => void;
}

/** Starts sandboxes with bubblewrap. Throws when it would run them as root: nothing is started then. */
export function createSandboxHost(options: SandboxHostOptions): SandboxHost {
  const isRoot = process.getuid?.() === 0;
  if (isRoot && (options.sandboxUid === null || options.sandboxUid === 0)) {
    throw new Error("a server that root started needs a sandbox uid other than 0");
  }
  lowerInheritedLimits();
  sweepSockets();
  return new BubblewrapHost({ ...options, sandboxUid: isRoot ? options.sandboxUid : null });
}

/** What both kinds of sandboxes are to the host. */
interface Lodger {
  ended: Promise<SandboxEnd>;
  /** Resolves when `close` is over; never rejects. */
  closed: Promise<void>;
  close(): Promise<void>;
}

class BubblewrapHost implements SandboxHost {
  readonly #options: SandboxHostOptions;
  readonly #live = new Set<Lodger>();
  readonly #warm: WarmPool<BubblewrapSandbox>;
  readonly #closing = new AbortController();
  /** Starts in progress, so that `close` can wait until they gave up. */
  readonly #starting = new Set<Promise<unknown>>();

  constructor(options: SandboxHostOptions) {
    this.#options = options;
    const { warmMax, sandboxesMax, clock, log } = options;
    const hasRoom = () => this.live + this.#warm.size < sandboxesMax;
    this.#warm = new WarmPool({ warmMax, hasRoom, clock, log });
  }

  get live(): number {
    return this.#live.size + this.#starting.size;
  }

  get warm(): number {
    return this.#warm.size;
  }

  get enforcement(): Enforcement {
    return enforcementOf(this.#options.groups);
  }

  images(): readonly ImageInfo[] {
    return this.#options.images.list();
  }

  open(options: SandboxOptions, signal: AbortSignal): Promise<Sandbox> {
    return this.#lodge(options, signal, async (lease, until) => {
      const taken = isPlain(options, lease.image) ? this.#warm.take(this.#kindOf(options, lease.image)) : null;
      if (taken === null) return this.#openCold(options, lease, until);
      try {
        taken.placeFiles(options.files ?? []);
        if (taken.isLive) return taken;
      } catch (error) {
        await taken.close();
        throw error;
      }
      await taken.close(); // it died on the way
      return this.#openCold(options, lease, until);
    });
  }

  start(options: ProgramOptions, signal: AbortSignal): Promise<SandboxProgram> {
    return this.#lodge(options, signal, async ({ image: rootImage }, until) => {
      const snapshotFd = await this.#openSnapshot(options.restore, rootImage);
      return startProgram(this.#cellHost(), { ...options, rootImage, snapshotFd }, until);
    });
  }

  drain(imageId: string): Promise<void> {
    return this.#warm.drain(imageId);
  }

  removeAllSnapshots(): void {
    this.#options.snapshots?.removeAll();
  }

  removeSnapshot(id: string): void {
    this.#options.snapshots?.remove(id);
  }

  async close(): Promise<void> {
    this.#closing.abort(new RolloutError("sandbox_lost", "the server is closing"));
    await this.#warm[Symbol.asyncDispose]();
    await Promise.allSettled(this.#starting);
    await Promise.all([...this.#live].map((lodger) => lodger.close()));
    await this.#options.groups?.[Symbol.asyncDispose]();
  }

  async #lodge<T extends Lodger>(
    { image }: SandboxOptions,
    signal: AbortSignal,
    start: (lease: ImageLease, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { sandboxesMax } = this.#options;
    if (this.live >= sandboxesMax) throw new RolloutError("sandbox_lost", `${sandboxesMax} sandboxes live already`);
    const until = AbortSignal.any([signal, this.#closing.signal]);
    until.throwIfAborted();
    const lease = this.#lease(image);
    // Not before it is counted below.
    const starting = Promise.resolve()
      .then(() => this.#makeRoom())
      .then(() => start(lease, until));
    this.#starting.add(starting);
    try {
      const lodger = await starting;
      this.#live.add(lodger);
      // Neither rejects. What was written on an overlay is read until the sandbox is closed.
      void lodger.ended.then(() => {
        this.#live.delete(lodger);
        this.#warm.refill();
      });
      void lodger.closed.then(() => lease.release());
      return lodger;
    } catch (error) {
      lease.release();
      if (until.aborted || error instanceof RolloutError) throw error;
      // EMFILE and the like: this machine has no room for another.
      throw new RolloutError("sandbox_lost", "a sandbox could not be started", { cause: error });
    } finally {
      this.#starting.delete(starting);
    }
  }

  #lease(image: string): ImageLease {
    const { images } = this.#options;
    const lease = images.lease(image);
    if (lease !== null) return lease;
    const names = images.list().map(({ name }) => name);
    throw new RolloutError("image_missing", `no image ${image}; there are ${names.join(", ")}`);
  }

  /** The one that asks is counted in `live` already. */
  async #makeRoom(): Promise<void> {
    while (this.live + this.#warm.size > this.#options.sandboxesMax) if (!(await this.#warm.yieldOne())) return;
  }

  async #openCold(options: SandboxOptions, { image }: ImageLease, until: AbortSignal): Promise<BubblewrapSandbox> {
    const id = newId("box", this.#options.clock.nowMs());
    const snapshotFd = await this.#openSnapshot(options.restore, image);
    return openSandbox(this.#cellHost(), { ...options, id, rootImage: image, snapshotFd }, until);
  }

  /** A warm one is like one that was opened for these options, but for their files; it holds its image by itself. */
  #kindOf({ limits }: SandboxOptions, { id: imageId }: SandboxImage): WarmKind<BubblewrapSandbox> {
    const { memoryBytes, diskBytes, inodesMax, pidsMax, openFilesMax, fileBytes, cpuMs } = limits;
    const key = [imageId, memoryBytes, diskBytes, inodesMax, pidsMax, openFilesMax, fileBytes, cpuMs].join(" ");
    const start = async (signal: AbortSignal) => {
      const lease = this.#lease(imageId); // not by name, which may mean another image by now
      const opened = await this.#openCold({ image: imageId, limits }, lease, signal).catch((error: unknown) => {
        lease.release();
        throw error;
      });
      void opened.closed.then(() => lease.release());
      try {
        await opened.warmUp();
        signal.throwIfAborted();
        return opened;
      } catch (error) {
        await opened.close();
        throw error;
      }
    };
    return { key, imageId, start };
  }

  /** Checks all of it before anything is started; null when there is none to restore. */
  async #openSnapshot(snapshot: SandboxSnapshot | undefined, image: SandboxImage): Promise<number | null> {
    if (snapshot === undefined) return null;
    const { snapshots } = this.#options;
    if (snapshots === null) throw new RolloutError("task_invalid", "this server keeps no snapshots");
    if (snapshot.imageId !== image.id) {
      const why = `snapshot ${snapshot.id} is of image ${snapshot.imageId}, and ${image.name} is ${image.id}`;
      throw new RolloutError("task_invalid", why);
    }
    return snapshots.open(snapshot);
  }

  #cellHost(): CellHost {
    const { bwrapPath, sandboxUid, groups, snapshots, network, clock, log, sweepOrphans } = this.#options;
    return { stage: { bwrapPath, sandboxUid }, groups, snapshots, network, clock, log, sweepOrphans };
  }
}

/** Whether a sandbox that was started before it was asked for will do. */
function isPlain({ cwd, network = [], restore }: SandboxOptions, image: SandboxImage): boolean {
  const own = image.cwd ?? DEFAULT_CWD;
  return (cwd ?? own) === own && network.length === 0 && restore === undefined;
}
