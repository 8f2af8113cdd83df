import type { Clock } from "../clock.ts";
import type { Store } from "../store/store.ts";

/**
 * Waits for commits without missing one: a commit between `arm` and `wait` ends the wait at once. The caller reads the
 * store between the two and disposes when it is done.
 */
export class CommitWait implements Disposable {
  readonly #stop: () => void;
  readonly #clock: Clock;
  #next = new AbortController();

  constructor(store: Store, clock: Clock) {
    this.#clock = clock;
    this.#stop = store.onCommit(() => this.#next.abort());
  }

  /** Forgets the commits so far. */
  arm(): void {
    if (this.#next.signal.aborted) this.#next = new AbortController();
  }

  /** Resolves at the next commit since `arm`, after `ms`, or when `signal` aborts. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await this.#clock.sleep(ms, AbortSignal.any([this.#next.signal, signal]));
  }

  [Symbol.dispose](): void {
    this.#stop();
  }
}
