import type { Clock } from "../clock.ts";

/** What a pool needs from its owner. `claim` answers null when nothing may be worked on now; none of them may hang. */
export interface PoolPort<Work> {
  claim(): Promise<Work | null>;
  /** Must not reject: ending a job, however it ends, is its own affair. `stop` aborts when the drain is over. */
  work(work: Work, stop: AbortSignal): Promise<void>;
  /** Told of what `claim` or `work` threw all the same; the slot goes on after a pause. */
  onThrow(cause: unknown): void;
}

export interface PoolLimits {
  /** Jobs at work at once. */
  slots: number;
  /** Longest time an idle slot goes without asking, ms: a missed wake-up costs latency, never a job. */
  idleMs: number;
}

/**
 * The slots of one stage. Each repeats: claim, work, be free again, whatever `work` did.
 *
 *   OPEN      a free slot claims at once; when there is nothing it sleeps until `wake` or for `idleMs`.
 *   DRAINING  entered by `drain`: no slot claims again, those at work have `graceMs`, then `stop` aborts.
 *   CLOSED    every slot is free; `drain` resolves.
 */
export class Pool<Work> {
  readonly #port: PoolPort<Work>;
  readonly #clock: Clock;
  readonly #limits: PoolLimits;
  readonly #closing = new AbortController();
  readonly #stop = new AbortController();
  readonly #slots: Promise<void>[];
  #wake = new AbortController();
  #busy = 0;

  constructor(port: PoolPort<Work>, clock: Clock, limits: PoolLimits) {
    this.#port = port;
    this.#clock = clock;
    this.#limits = limits;
    this.#slots = Array.from({ length: limits.slots }, () => this.#runSlot());
  }

  get slots(): number {
    return this.#limits.slots;
  }

  get busy(): number {
    return this.#busy;
  }

  /** Tells sleeping slots that there may be work. Cheap: call it for every cause. */
  wake(): void {
    const asleep = this.#wake;
    this.#wake = new AbortController();
    asleep.abort();
  }

  async drain(graceMs: number): Promise<void> {
    this.#closing.abort();
    this.wake();
    const free = new AbortController();
    const grace = this.#clock.sleep(graceMs, free.signal).then(() => this.#stop.abort());
    await Promise.all(this.#slots);
    free.abort();
    await grace;
  }

  async #runSlot(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      const wake = this.#wake.signal; // before the claim: a wake while it is under way must not be missed
      const work = await this.#claim();
      if (work === null) await this.#clock.sleep(this.#limits.idleMs, wake);
      else await this.#occupy(work);
    }
  }

  async #claim(): Promise<Work | null> {
    try {
      return await this.#port.claim();
    } catch (cause) {
      this.#port.onThrow(cause);
      return null;
    }
  }

  async #occupy(work: Work): Promise<void> {
    this.#busy += 1;
    try {
      await this.#port.work(work, this.#stop.signal);
    } catch (cause) {
      this.#port.onThrow(cause);
    } finally {
      this.#busy -= 1;
    }
  }
}
