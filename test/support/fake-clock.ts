import type { Clock } from "../../src/clock.ts";

/** A clock that stands still until a test moves it; sleepers wake in the order of their time. */
export class FakeClock implements Clock {
  #nowMs = 0;
  #sleepers: { atMs: number; wake: () => void }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const sleeper = { atMs: this.#nowMs + ms, wake: resolve };
      this.#sleepers.push(sleeper);
      const onAbort = () => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        resolve();
      };
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** Lets `ms` pass, and everything run that this sets free. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      await this.settle();
      const due = this.#sleepers.filter((sleeper) => sleeper.atMs <= untilMs);
      const next = due.toSorted((left, right) => left.atMs - right.atMs)[0];
      if (!next) break;
      this.#nowMs = next.atMs;
      this.#sleepers = this.#sleepers.filter((sleeper) => sleeper !== next);
      next.wake();
    }
    this.#nowMs = untilMs;
    await this.settle();
  }

  /** Runs what can run now, without letting time pass. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
  }
}
