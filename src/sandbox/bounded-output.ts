/** The first and last bytes of an output of any length: memory stays at `bytesMax`, the middle is counted and dropped. */
export class BoundedOutput {
  readonly #headMax: number;
  readonly #tailMax: number;
  readonly #head: Uint8Array[] = [];
  #headBytes = 0;
  /** Chunks whose sum is at least the tail; the oldest go as soon as the others are enough. */
  #tail: Uint8Array[] = [];
  #tailBytes = 0;
  #totalBytes = 0;

  constructor({ headBytesMax, tailBytesMax }: { headBytesMax: number; tailBytesMax: number }) {
    this.#headMax = headBytesMax;
    this.#tailMax = tailBytesMax;
  }

  get totalBytes(): number {
    return this.#totalBytes;
  }

  get truncated(): boolean {
    return this.#totalBytes > this.#headMax + this.#tailMax;
  }

  /** Keeps views of `bytes`: the caller must not change it afterwards. */
  push(bytes: Uint8Array): void {
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
    const tail = Buffer.concat(this.#tail);
    const kept = tail.subarray(Math.max(0, tail.length - this.#tailMax));
    if (!this.truncated || this.#tailMax === 0) return Buffer.concat([...this.#head, kept]).toString("utf8");
    const left = this.#totalBytes - this.#headBytes - kept.length;
    return `${Buffer.concat(this.#head).toString("utf8")}\n[... ${left} bytes left out ...]\n${kept.toString("utf8")}`;
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
