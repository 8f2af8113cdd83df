import type { Log } from "./log.ts";

/**
 * The owner of every promise that nobody awaits. A rejection is logged, never lost and never fatal;
 * `drain` resolves when all that was started has ended.
 */
export class Supervisor {
  readonly #log: Log;
  readonly #running = new Set<Promise<void>>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Tasks not yet ended. */
  get size(): number {
    return this.#running.size;
  }

  /** Starts `work` and keeps it; `name` stands in the log line when it fails. */
  own(name: string, work: Promise<unknown>): void {
    const settled = work.then(
      () => {},
      (error: unknown) => this.#log.error("supervisor:task_failed", { name, error }),
    );
    const kept = settled.finally(() => this.#running.delete(kept));
    this.#running.add(kept);
  }

  async drain(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }
}
