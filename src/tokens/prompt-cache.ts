import { TOKEN_LIMITS } from "../limits.ts";
import type { Rendered } from "./renderer.ts";

/**
 * Rendered prompts by content, so that the jobs of a group tokenise theirs once. Keeps at most `promptsKeptMax`
 * prompts and `promptIdsKeptMax` ids. Callers that ask while a prompt is being made share that work; a failure is
 * not kept.
 */
export class PromptCache {
  readonly #entries = new Map<string, { rendered: Promise<Rendered>; ids: number }>();
  #ids = 0;

  get size(): number {
    return this.#entries.size;
  }

  get(key: string, make: () => Promise<Rendered>): Promise<Rendered> {
    const known = this.#entries.get(key);
    if (known !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, known);
      return known.rendered;
    }
    const entry = { rendered: make(), ids: 0 };
    this.#entries.set(key, entry);
    entry.rendered.then(
      (rendered) => {
        if (this.#entries.get(key) !== entry) return;
        entry.ids = rendered.ids.length;
        this.#ids += entry.ids;
        this.#trim();
      },
      () => {
        if (this.#entries.get(key) === entry) this.#entries.delete(key);
      },
    );
    this.#trim();
    return entry.rendered;
  }

  #trim(): void {
    for (const [key, entry] of this.#entries) {
      if (this.#entries.size <= TOKEN_LIMITS.promptsKeptMax && this.#ids <= TOKEN_LIMITS.promptIdsKeptMax) return;
      this.#entries.delete(key);
      this.#ids -= entry.ids;
    }
  }
}
