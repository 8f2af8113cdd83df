import type { Clock } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { newId } from "../ids.ts";
import type { Log } from "../log.ts";
import { openSandbox } from "./bubblewrap-sandbox.ts";
import type { CellHost } from "./cell.ts";
import type { ImageCatalog, ImageInfo, SandboxImage } from "./image.ts";
import { startProgram } from "./program.ts";
import type { ProgramOptions, Sandbox, SandboxEnd, SandboxHost, SandboxOptions, SandboxProgram } from "./sandbox.ts";

export interface SandboxHostOptions {
  /** A bubblewrap of at least `BWRAP_VERSION_MIN` that `sandboxUid` can reach. */
  bwrapPath: string;
  /** The uid that sandboxes run as: required when the server is root, null when it is an ordinary user. */
  sandboxUid: number | null;
  images: ImageCatalog;
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
  return new BubblewrapHost({ ...options, sandboxUid: isRoot ? options.sandboxUid : null });
}

/** What both kinds of sandboxes are to the host. */
interface Lodger {
  ended: Promise<SandboxEnd>;
  close(): Promise<void>;
}

class BubblewrapHost implements SandboxHost {
  readonly #options: SandboxHostOptions;
  readonly #live = new Set<Lodger>();
  readonly #closing = new AbortController();
  /** Starts in progress, so that `close` can wait until they gave up. */
  readonly #starting = new Set<Promise<unknown>>();

  constructor(options: SandboxHostOptions) {
    this.#options = options;
  }

  get live(): number {
    return this.#live.size + this.#starting.size;
  }

  images(): readonly ImageInfo[] {
    return this.#options.images.list();
  }

  open(options: SandboxOptions, signal: AbortSignal): Promise<Sandbox> {
    const id = newId("box", this.#options.clock.nowMs());
    return this.#lodge(options.image, signal, (host, rootImage, until) =>
      openSandbox(host, { ...options, id, rootImage }, until),
    );
  }

  start(options: ProgramOptions, signal: AbortSignal): Promise<SandboxProgram> {
    return this.#lodge(options.image, signal, (host, rootImage, until) =>
      startProgram(host, { ...options, rootImage }, until),
    );
  }

  async close(): Promise<void> {
    this.#closing.abort(new RolloutError("sandbox_lost", "the server is closing"));
    await Promise.allSettled(this.#starting);
    await Promise.all([...this.#live].map((lodger) => lodger.close()));
  }

  async #lodge<T extends Lodger>(
    image: string,
    signal: AbortSignal,
    start: (host: CellHost, image: SandboxImage, signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const { sandboxesMax, images } = this.#options;
    if (this.live >= sandboxesMax) throw new RolloutError("sandbox_lost", `${sandboxesMax} sandboxes live already`);
    const until = AbortSignal.any([signal, this.#closing.signal]);
    until.throwIfAborted();
    const lease = images.lease(image);
    if (lease === null) {
      const names = images.list().map(({ name }) => name);
      throw new RolloutError("image_missing", `no image ${image}; there are ${names.join(", ")}`);
    }
    const starting = start(this.#cellHost(), lease.image, until);
    this.#starting.add(starting);
    try {
      const lodger = await starting;
      this.#live.add(lodger);
      void lodger.ended.then(() => {
        lease.release();
        this.#live.delete(lodger);
      }); // `ended` never rejects
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

  #cellHost(): CellHost {
    const { bwrapPath, sandboxUid, clock, log, sweepOrphans } = this.#options;
    return { stage: { bwrapPath, sandboxUid }, clock, log, sweepOrphans };
  }
}
