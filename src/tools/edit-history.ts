import { LIMITS } from "../limits.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";

/** One change of a file: what it held before (null when there was none), and a hash of what it holds after. */
interface Change {
  path: string;
  before: Uint8Array | null;
  after: bigint;
}

/** The changes that the edit tool made in one sandbox and can take back; the oldest are forgotten first. */
export class EditHistory {
  readonly #changes: Change[] = [];
  #bytes = 0;

  add(path: string, before: Uint8Array | null, after: Uint8Array): void {
    this.#changes.push({ path, before, after: hashOf(after) });
    this.#bytes += before?.length ?? 0;
    while (this.#changes.length > LIMITS.undoChangesMax || this.#bytes > LIMITS.undoBytesMax) {
      this.#bytes -= this.#changes.shift()?.before?.length ?? 0;
    }
  }

  /** The last change of `path`; null when there is none. `isCurrent` says whether the file still holds what it left. */
  last(path: string): { before: Uint8Array | null; isCurrent(now: Uint8Array | null): boolean } | null {
    const change = this.#changes.findLast((each) => each.path === path);
    if (change === undefined) return null;
    const { before, after } = change;
    return { before, isCurrent: (now) => now !== null && hashOf(now) === after };
  }

  /** Forgets the last change of `path`. */
  drop(path: string): void {
    const at = this.#changes.findLastIndex((each) => each.path === path);
    const [dropped] = at < 0 ? [] : this.#changes.splice(at, 1);
    this.#bytes -= dropped?.before?.length ?? 0;
  }
}

/** Held as long as the sandbox's object is: nobody has to end it. */
const histories = new WeakMap<Sandbox, EditHistory>();

/** The history of a sandbox, made at its first change. */
export function historyOf(sandbox: Sandbox): EditHistory {
  const known = histories.get(sandbox);
  if (known !== undefined) return known;
  const made = new EditHistory();
  histories.set(sandbox, made);
  return made;
}

function hashOf(bytes: Uint8Array): bigint {
  return Bun.hash.wyhash(bytes);
}
