import { closeSync } from "node:fs";

/** Writes to a program's stdin, in order, without blocking the server. Owns the descriptor. */
export class PipeWriter implements AsyncDisposable {
  readonly #fd: number;
  readonly #sink: Bun.FileSink;
  #last: Promise<void> = Promise.resolve();
  #ended = false;

  /** Takes over `fd`: closes it when it throws, since Bun needs a second descriptor. */
  constructor(fd: number) {
    this.#fd = fd;
    try {
      this.#sink = Bun.file(fd).writer();
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }

  /** Resolves when the kernel took the bytes; those that a dead program never reads are dropped. */
  write(bytes: Uint8Array | string): Promise<void> {
    if (this.#ended) return this.#last;
    this.#last = this.#last.then(async () => {
      try {
        await this.#sink.write(bytes);
        await this.#sink.flush();
      } catch {
        // EPIPE: the program is gone, and its end says what there is to say
      }
    });
    return this.#last;
  }

  /** The program sees the end of its stdin once everything is written. Safe to call twice. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#last = this.#last.then(async () => {
      try {
        await this.#sink.end();
      } catch {
        // EPIPE again
      }
      closeSync(this.#fd);
    });
  }

  /** Waits until the descriptor is closed: call it when no program is left that could refuse to read. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.end();
    await this.#last;
  }
}
