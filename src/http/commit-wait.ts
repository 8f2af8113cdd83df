import type { Clock } from "../clock.ts";
import type { Commit, Store } from "../store/store.ts";

/**
 * Waits for commits that concern its owner, without missing one: such a commit between `arm` and `wait` ends the wait at once. The caller reads the
 * store between the two and disposes when it is done.
 */
export class CommitWait implements Disposable {
  readonly #stop: () => void;
  readonly #clock: Clock;
  #next = new AbortController();

  /** Hundreds wait at once, and each that is woken reads the store: `concerns` leaves those asleep that need not. */
  constructor(store: Store, clock: Clock, concerns: (commit: Commit) => boolean) {
    this.#clock = clock;
    this.#stop = store.onCommit((commit) => {
      if (concerns(commit)) this.#next.abort();
    });
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
