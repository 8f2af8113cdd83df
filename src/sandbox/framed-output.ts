import type { BoundedOutput } from "./bounded-output.ts";
import type { PipeReader } from "./pipe-reader.ts";

/**
 * Finds where an answer ends in a stream that the agent writes into: `\n RS nonce words RS`, with a nonce that was
 * made for this answer. An agent that reads its own shell's memory can forge it and deceives only itself.
 */
const RECORD_SEPARATOR = 0x1e;
const MARK_BYTES_MAX = 128;
const NEWLINE = 0x0a;

/** A mark that was seen: whose it is and what stood in it. */
export interface Mark {
  nonce: string;
  words: readonly string[];
}

export type Wait = Mark | "ended" | "aborted";

export class FramedOutput {
  readonly #pipe: PipeReader;
  /** Bytes not yet known to be output or mark. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(pipe: PipeReader) {
    this.#pipe = pipe;
  }

  /**
   * Reads up to the first mark of any of `nonces`; what stands before it goes to `sink`. After "aborted" the next
   * call goes on where this one stopped.
   */
  async until(nonces: readonly string[], sink: BoundedOutput | null, signal: AbortSignal): Promise<Wait> {
    const starts = nonces.map((nonce) => ({ nonce, bytes: Buffer.from(`\x1e${nonce}`) }));
    for (;;) {
      const mark = this.#take(starts, sink);
      if (mark !== null) return mark;
      const chunk = await this.#pipe.next(signal);
      if (chunk === "aborted") return "aborted";
      if (chunk === null) {
        this.#release(this.#rest.length, sink);
        return "ended";
      }
      this.#rest = this.#rest.length === 0 ? asBuffer(chunk) : Buffer.concat([this.#rest, chunk]);
    }
  }

  /** Gives to `sink` all that is not the beginning of a mark, for a command that goes on. */
  flush(sink: BoundedOutput): void {
    const at = this.#rest.lastIndexOf(RECORD_SEPARATOR);
    const isMark = at >= 0 && this.#rest.length - at <= MARK_BYTES_MAX;
    this.#release(isMark ? this.#startOf(at) : this.#rest.length, sink);
  }

  #take(starts: readonly { nonce: string; bytes: Buffer }[], sink: BoundedOutput | null): Mark | null {
    let first: { nonce: string; at: number; after: number } | null = null;
    for (const { nonce, bytes } of starts) {
      const at = this.#rest.indexOf(bytes);
      if (at >= 0 && (first === null || at < first.at)) first = { nonce, at, after: at + bytes.length };
    }
    if (first === null) {
      this.#release(this.#rest.length - MARK_BYTES_MAX, sink);
      return null;
    }
    const end = this.#rest.indexOf(RECORD_SEPARATOR, first.after);
    if (end < 0) {
      // A mark that is cut off by the end of a chunk; longer than any mark, it is output that looks like one.
      const isOutput = this.#rest.length - first.at > MARK_BYTES_MAX;
      this.#release(isOutput ? first.after : this.#startOf(first.at), sink);
      return null;
    }
    const start = this.#startOf(first.at);
    const words = this.#rest.subarray(first.after, end).toString("latin1").trim().split(" ");
    this.#release(start, sink);
    this.#rest = this.#rest.subarray(end - start + 1);
    return { nonce: first.nonce, words };
  }

  /** Where a mark begins whose separator stands at `at`: its newline may have been given away as output before. */
  #startOf(at: number): number {
    return this.#rest[at - 1] === NEWLINE ? at - 1 : at;
  }

  #release(bytes: number, sink: BoundedOutput | null): void {
    if (bytes <= 0) return;
    sink?.push(this.#rest.subarray(0, bytes));
    this.#rest = this.#rest.subarray(bytes);
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
