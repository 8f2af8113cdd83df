import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { BoundedOutput, pushMerged } from "./bounded-output.ts";
import type { PipeReader } from "./pipe-reader.ts";

const NEWLINE = 0x0a;

/** A program's stdout as lines, or to its end. Reads only what is asked for. Owns the pipe. */
export class LineReader implements AsyncDisposable {
  /** The head of all that was read, by lines or to the end. */
  readonly seen = new BoundedOutput({ headBytesMax: LIMITS.outputBytesMax, tailBytesMax: 0 });
  readonly #pipe: PipeReader;
  /** What was read of the line to come; only the last piece may hold a newline. */
  #pieces: Uint8Array[] = [];
  #bytes = 0;
  #ended = false;

  constructor(pipe: PipeReader) {
    this.#pipe = pipe;
  }

  /** The next line without its newline; null at the end. A last line without newline is one too. */
  async next(signal: AbortSignal): Promise<string | null> {
    for (;;) {
      const last = this.#pieces.at(-1);
      const newline = last?.indexOf(NEWLINE) ?? -1;
      if (last !== undefined && newline >= 0) return this.#take(last, newline);
      if (this.#bytes > LIMITS.programLineBytesMax) {
        throw new RolloutError("sandbox_limit", `a line of output holds more than ${LIMITS.programLineBytesMax} bytes`);
      }
      if (this.#ended) return this.#takeRest();
      await this.#read(signal);
    }
  }

  /** Reads to the end and keeps the head only. Throws the signal's reason on abort. */
  async drain(signal: AbortSignal): Promise<void> {
    while (!this.#ended) {
      await this.#read(signal);
      this.#pieces = [];
      this.#bytes = 0;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pipe.close();
  }

  async #read(signal: AbortSignal): Promise<void> {
    const chunk = await this.#pipe.next(signal);
    if (chunk === "aborted") throw signal.reason;
    if (chunk === null) {
      this.#ended = true;
      return;
    }
    this.seen.push(chunk);
    pushMerged(this.#pieces, chunk);
    this.#bytes += chunk.length;
  }

  #take(last: Uint8Array, newline: number): string {
    const line = Buffer.concat([...this.#pieces.slice(0, -1), last.subarray(0, newline)]).toString("utf8");
    const rest = last.subarray(newline + 1);
    this.#pieces = rest.length === 0 ? [] : [rest];
    this.#bytes = rest.length;
    return line;
  }

  #takeRest(): string | null {
    if (this.#bytes === 0) return null;
    const line = Buffer.concat(this.#pieces).toString("utf8");
    this.#pieces = [];
    this.#bytes = 0;
    return line;
  }
}
