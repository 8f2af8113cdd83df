import { IMAGE_LIMITS } from "../../limits.ts";
import { ImageError, SEE_DOCTOR } from "./image-error.ts";

/** As apt, pip, git, compilers and most others begin or end the line that says what is wrong. */
const NAMES_ERROR = /^\s*(E:|ERROR\b|error:|fatal:)|\b(command not found|: not found)$/;
/** bubblewrap itself, before any program: namespaces or mounts are refused. */
const OF_BUBBLEWRAP = /^bwrap: /;

/** Of a program's output what tells why it failed: the first lines that name an error, and the end. */
export class OutputTail {
  readonly #errors: string[] = [];
  readonly #last: string[] = [];
  #lines = 0;

  push(line: string): void {
    this.#lines += 1;
    this.#last.push(line);
    if (this.#last.length > IMAGE_LIMITS.outputLinesKept) this.#last.shift();
    const isNew = this.#errors.length < IMAGE_LIMITS.outputErrorsKept && !this.#errors.includes(line);
    if (isNew && NAMES_ERROR.test(line)) this.#errors.push(line);
  }

  /** `how` says which program ended in what way. */
  toError(how: string): ImageError {
    const [first] = this.#last;
    if (this.#lines === 1 && first !== undefined && OF_BUBBLEWRAP.test(first)) {
      return new ImageError("machine", `no program of a build can be started: ${first}; ${SEE_DOCTOR}`);
    }
    const left = this.#lines - this.#last.length;
    if (left === 0) return new ImageError("failed", [`${how}:`, ...this.#last].join("\n"));
    const cut = `the last ${this.#last.length} of ${this.#lines} lines of its output:`;
    return new ImageError("failed", [`${how}:`, ...this.#errors, cut, ...this.#last].join("\n"));
  }
}
