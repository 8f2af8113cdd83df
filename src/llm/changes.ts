/** Tells that the backends have changed: to listeners, and to those who wait for a better state. */
export class Changes {
  readonly #listeners = new Set<() => void>();
  #next = Promise.withResolvers<void>();

  /** Returns how to stop. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(): void {
    const { resolve } = this.#next;
    this.#next = Promise.withResolvers<void>();
    resolve();
    for (const listener of this.#listeners) listener();
  }

  /** Resolves at the next change, or when `signal` aborts; leaves no listener behind. */
  async wait(signal: AbortSignal): Promise<void> {
    const aborted = Promise.withResolvers<void>();
    const onAbort = () => aborted.resolve();
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    await Promise.race([this.#next.promise, aborted.promise]);
    signal.removeEventListener("abort", onAbort);
  }
}
