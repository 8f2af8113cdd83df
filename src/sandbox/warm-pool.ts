import type { Clock } from "../clock.ts";
import { LIMITS } from "../limits.ts";
import type { Log } from "../log.ts";

/** From a hand-over to the start of the next one. */
const REFILL_MS = 2;

/** What the pool must know of a started sandbox. */
export interface Warmable {
  readonly isLive: boolean;
  readonly ended: Promise<unknown>;
  close(): Promise<void>;
}

/** Sandboxes that may stand for each other. */
export interface WarmKind<T> {
  key: string;
  /** Id of the image they live on. */
  imageId: string;
  start(signal: AbortSignal): Promise<T>;
}

export interface WarmPoolOptions {
  /** Of all kinds together, those that still start included; 0: there is no pool. */
  warmMax: number;
  /** Whether one more sandbox may live. */
  hasRoom: () => boolean;
  clock: Clock;
  log: Log;
}

interface Shelf<T> {
  kind: WarmKind<T>;
  ready: T[];
  /** How many are wanted now. */
  target: number;
  /** Fewest that were ready since the last look: so many were not needed. */
  fewest: number;
}

/**
 * Started sandboxes for those who will ask. A kind that was asked for is kept in stock; each time none was ready one more
 * is kept, so the stock comes to what is asked for during a start; what was not needed in a while is closed again.
 */
export class WarmPool<T extends Warmable> implements AsyncDisposable {
  readonly #options: WarmPoolOptions;
  readonly #shelves = new Map<string, Shelf<T>>();
  readonly #closing = new AbortController();
  readonly #closes = new Set<Promise<void>>();
  #starting = 0;
  #refilling: Promise<void> | null = null;
  #looking: Promise<void> | null = null;

  constructor(options: WarmPoolOptions) {
    this.#options = options;
  }

  /** Live sandboxes that nobody has, those that still start included. */
  get size(): number {
    return [...this.#shelves.values()].reduce((sum, { ready }) => sum + ready.length, this.#starting);
  }

  /** A sandbox that is the caller's from now on, or null when none is ready; either way more are started behind it. */
  take(kind: WarmKind<T>): T | null {
    if (this.#options.warmMax === 0 || this.#closing.signal.aborted) return null;
    const shelf = this.#shelves.get(kind.key) ?? { kind, ready: [], target: 0, fewest: 0 };
    this.#shelves.set(kind.key, shelf);
    let taken = shelf.ready.shift();
    while (taken !== undefined && !taken.isLive) taken = shelf.ready.shift();
    shelf.fewest = Math.min(shelf.fewest, shelf.ready.length);
    if (taken === undefined) shelf.target = Math.min(this.#options.warmMax, shelf.target + 1);
    this.refill();
    this.#look();
    return taken ?? null;
  }

  /** Closes one, of the kind with the most, so that another may live; false when there is none. */
  async yieldOne(): Promise<boolean> {
    await this.#refilling; // one that starts just now could not give way
    const most = [...this.#shelves.values()].sort((a, b) => b.ready.length - a.ready.length)[0];
    const given = most?.ready.pop();
    if (most === undefined || given === undefined) return false;
    most.target = Math.min(most.target, most.ready.length);
    await given.close();
    return true;
  }

  /** Closes all that live on an image, or would soon; resolves when they are gone. */
  async drain(imageId: string): Promise<void> {
    for (const [key, { kind, ready }] of this.#shelves) {
      if (kind.imageId !== imageId) continue;
      this.#shelves.delete(key);
      for (const each of ready) this.#close(each);
    }
    await this.#refilling;
    await Promise.all(this.#closes);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort(new Error("the server is closing"));
    for (const { kind } of this.#shelves.values()) await this.drain(kind.imageId);
    await this.#refilling;
    await Promise.all(this.#closes);
    await this.#looking;
  }

  /** Starts in the background what is wanted; to be called also when there is room again. */
  refill(): void {
    this.#refilling ??= this.#fill().finally(() => {
      this.#refilling = null;
    });
  }

  /** One after the other: more at once would take the processors from those who work. */
  async #fill(): Promise<void> {
    for (;;) {
      // A start keeps this thread for a millisecond: who took one goes first.
      await this.#options.clock.sleep(REFILL_MS, this.#closing.signal);
      const shelf = [...this.#shelves.values()].find(({ ready, target }) => ready.length < target);
      const { warmMax, hasRoom } = this.#options;
      if (shelf === undefined || this.#closing.signal.aborted || this.size >= warmMax || !hasRoom()) return;
      this.#starting += 1;
      try {
        this.#put(shelf, await shelf.kind.start(this.#closing.signal));
      } catch (error) {
        // The one who asks next meets the same and is told; until then it is not tried again.
        shelf.target = 0;
        if (!this.#closing.signal.aborted) this.#options.log.warn("sandbox:warm_start_failed", { error });
      } finally {
        this.#starting -= 1;
      }
    }
  }

  #put(shelf: Shelf<T>, started: T): void {
    const isWanted = this.#shelves.get(shelf.kind.key) === shelf && !this.#closing.signal.aborted;
    if (!isWanted) {
      this.#close(started); // drained meanwhile
      return;
    }
    shelf.ready.push(started);
    void started.ended.then(() => {
      const at = shelf.ready.indexOf(started);
      if (at < 0) return; // somebody's now
      shelf.ready.splice(at, 1);
      this.#close(started);
    });
  }

  #close(sandbox: T): void {
    const closing = sandbox.close().finally(() => this.#closes.delete(closing));
    this.#closes.add(closing);
  }

  /** Looks from time to time, as long as there is a stock. */
  #look(): void {
    this.#looking ??= this.#shrink().finally(() => {
      this.#looking = null;
    });
  }

  async #shrink(): Promise<void> {
    while (this.#shelves.size > 0 && !this.#closing.signal.aborted) {
      await this.#options.clock.sleep(LIMITS.warmLookMs, this.#closing.signal);
      for (const [key, shelf] of this.#shelves) {
        const surplus = Math.ceil(Math.min(shelf.fewest, shelf.ready.length) / 2);
        shelf.target = Math.max(0, shelf.target - surplus);
        for (const each of shelf.ready.splice(shelf.target)) this.#close(each);
        shelf.fewest = shelf.ready.length;
        if (shelf.target === 0) this.#shelves.delete(key);
      }
      this.refill(); // there may be room again
    }
  }
}
