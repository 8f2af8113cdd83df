import { OutputSpool } from "./output-spool.ts";

/** What is kept of an output, as UTF-8: all in `head` when nothing was left out. No character is cut in two. */
export interface OutputParts {
  head: string;
  tail: string;
  /** Bytes between the two. */
  leftBytes: number;
}

/** The first and last bytes of an output of any length: memory stays at `bytesMax`, the middle is counted and dropped. */
export class BoundedOutput implements Disposable {
  readonly #headMax: number;
  readonly #tailMax: number;
  readonly #spoolMax: number;
  /** Opened when memory no longer holds all. */
  #spool: OutputSpool | null = null;
  readonly #head: Uint8Array[] = [];
  #headBytes = 0;
  /** Chunks whose sum is at least the tail; the oldest go as soon as the others are enough. */
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #totalBytes = 0;

  /** `spoolBytesMax`: how many of the first bytes `whole` gives when they are more than head and tail; those are on disk. */
  constructor(bounds: { headBytesMax: number; tailBytesMax: number; spoolBytesMax?: number }) {
    this.#headMax = bounds.headBytesMax;
    this.#tailMax = bounds.tailBytesMax;
    this.#spoolMax = bounds.spoolBytesMax ?? 0;
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  get truncated(): boolean {
    return this.#totalBytes > this.#headMax + this.#tailMax;
  }

  /** Keeps views of `bytes`: the caller must not change it afterwards. */
  push(bytes: Uint8Array): void {
    this.#keepWhole(bytes);
    this.#totalBytes += bytes.length;
    const forHead = Math.min(bytes.length, this.#headMax - this.#headBytes);
    if (forHead > 0) {
      pushMerged(this.#head, bytes.subarray(0, forHead));
      this.#headBytes += forHead;
    }
    if (forHead === bytes.length) return;
    this.#tail.push(bytes.subarray(forHead));
    this.#tailBytes += bytes.length - forHead;
    this.#trim();
  }

  /** Head and tail as UTF-8, with the number of bytes left out between them; the head alone when no tail is kept. */
  text(): string {
    return joinParts(this.#tailMax === 0 ? { ...this.parts(), leftBytes: 0 } : this.parts());
  }

  parts(): OutputParts {
    const tail = Buffer.concat(this.#tail);
    const kept = tail.subarray(Math.max(0, tail.length - this.#tailMax));
    if (!this.truncated) return { head: Buffer.concat([...this.#head, kept]).toString("utf8"), tail: "", leftBytes: 0 };
    const head = withoutCutEnd(Buffer.concat(this.#head));
    const end = withoutCutStart(kept);
    const leftBytes = this.#totalBytes - head.length - end.length;
    return { head: head.toString("utf8"), tail: end.toString("utf8"), leftBytes };
  }

  /** The output's bytes from the first on: all of them, or as many as the spool may hold. */
  whole(): Uint8Array {
    const spooled = this.#spool?.read() ?? null;
    return spooled ?? Buffer.concat(this.truncated ? this.#head : [...this.#head, ...this.#tail]);
  }

  /** Gives the spool's file back. */
  [Symbol.dispose](): void {
    this.#spool?.[Symbol.dispose]();
    this.#spool = null;
  }

  #keepWhole(bytes: Uint8Array): void {
    if (this.#spoolMax === 0 || this.#totalBytes + bytes.length <= this.#headMax + this.#tailMax) return;
    if (this.#spool === null) {
      this.#spool = new OutputSpool(this.#spoolMax);
      for (const each of [...this.#head, ...this.#tail]) this.#spool.push(each);
    }
    this.#spool.push(bytes);
  }

  #trim(): void {
    let drop = 0;
    while (drop < this.#tail.length) {
      const bytes = this.#tail[drop]?.length ?? 0;
      if (this.#tailBytes - bytes < this.#tailMax) break;
      this.#tailBytes -= bytes;
      drop += 1;
    }
    if (drop > 0) this.#tail = this.#tail.slice(drop);
    // Many tiny writes would hold an object for each: put them together now and then.
    if (this.#tail.length > TAIL_CHUNKS_MAX) this.#tail = [Buffer.concat(this.#tail)];
  }
}

const TAIL_CHUNKS_MAX = 256;
/** The first byte of a UTF-8 character has up to three after it. */
const UTF8_FOLLOWERS_MAX = 3;

/** The text of an output with the number of bytes left out where they were. */
export function joinParts({ head, tail, leftBytes }: OutputParts): string {
  return leftBytes === 0 ? head + tail : `${head}\n[... ${leftBytes} bytes left out ...]\n${tail}`;
}

function isFollower(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}

/** Without the start of a character whose end was left out. */
function withoutCutEnd(bytes: Buffer): Buffer {
  let at = bytes.length;
  while (at > 0 && bytes.length - at < UTF8_FOLLOWERS_MAX && isFollower(bytes[at - 1])) at -= 1;
  const first = bytes[at - 1] ?? 0;
  const length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return length > bytes.length - at + 1 ? bytes.subarray(0, at - 1) : bytes;
}

/** Without the end of a character whose start was left out. */
function withoutCutStart(bytes: Buffer): Buffer {
  let at = 0;
  while (at < UTF8_FOLLOWERS_MAX && isFollower(bytes[at])) at += 1;
  return bytes.subarray(at);
}

/**
 * Adds a chunk to `chunks` and puts small ones together, as every chunk costs some 200 bytes besides its own: a program
 * that writes byte by byte would else take 200 times what it wrote. Each byte is copied some 20 times at most.
 */
export function pushMerged(chunks: Uint8Array[], chunk: Uint8Array): void {
  let last = chunk;
  for (let before = chunks.at(-1); before !== undefined && before.length <= last.length; before = chunks.at(-1)) {
    chunks.pop();
    last = Buffer.concat([before, last]);
  }
  chunks.push(last);
}
