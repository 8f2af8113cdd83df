import { closeSync } from "node:fs";

/**
 * Reads one pipe on demand. Nothing is read while nobody asks, so a writer that is not listened to is stopped by
 * the kernel and costs no memory here. Owns the descriptor.
 */
export class PipeReader {
  readonly #fd: number;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #pending: Promise<void> | null = null;
  #chunk: Uint8Array | null = null;
  #ended = false;
  #closed = false;
  #wake: (() => void) | null = null;

  /** Takes over `fd`: closes it when it throws, since Bun needs a second descriptor. */
  constructor(fd: number) {
    this.#fd = fd;
    try {
      this.#reader = Bun.file(fd).stream().getReader();
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  /** The next bytes; null at the end of the pipe; "aborted" when `signal` fires first, and then nothing is lost. */
  async next(signal: AbortSignal): Promise<Uint8Array | null | "aborted"> {
    if (this.#chunk === null && !this.#ended) {
      if (signal.aborted) return "aborted";
      this.#pending ??= this.#read();
      await this.#pendingOr(signal);
    }
    const chunk = this.#chunk;
    if (chunk !== null) {
      this.#chunk = null;
      return chunk;
    }
    return this.#ended ? null : "aborted";
  }

  /** Ends all reading; a waiting `next` gets null. Safe to call twice. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended = true;
    this.#wake?.();
    await this.#reader.cancel().catch(() => {});
    await this.#pending;
    closeSync(this.#fd);
  }

  async #read(): Promise<void> {
    try {
      const { done, value } = await this.#reader.read();
      if (done) this.#ended = true;
      else this.#chunk = value;
    } catch {
      this.#ended = true; // EIO or a cancelled read: there is no more to come
    }
    this.#pending = null;
    this.#wake?.();
  }

  async #pendingOr(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wake = resolve;
    signal.addEventListener("abort", resolve as () => void, { once: true });
    await promise;
    this.#wake = null;
    signal.removeEventListener("abort", resolve as () => void);
  }
}
