import { LIMITS } from "../limits.ts";

/** A file that a tool keeps beside its answer; read at `/v1/jobs/ID/artifacts/NAME`. */
export interface Attachment {
  name: string;
  bytes: Uint8Array;
}

/** How many files and bytes a job may still keep; shared by all its calls. */
export class AttachmentBudget {
  #files: number = LIMITS.toolFilesMax;
  #bytes: number = LIMITS.toolFilesBytesMax;

  /** False when it is spent. */
  take(bytes: number): boolean {
    if (this.#files < 1 || bytes > this.#bytes) return false;
    this.#files -= 1;
    this.#bytes -= bytes;
    return true;
  }
}

/** What one call keeps. */
export class Attachments {
  readonly #budget: AttachmentBudget;
  readonly #call: string;
  readonly #kept: Attachment[] = [];

  /** `turn` from 0, `call` from 1 within it: they stand in the names, which are unique in a job. */
  constructor(budget: AttachmentBudget, { turn, call }: { turn: number; call: number }) {
    this.#budget = budget;
    this.#call = `${turn}-${call}`;
  }

  get kept(): readonly Attachment[] {
    return this.#kept;
  }

  /** Keeps the whole of an output; gives its name, or null when the job may keep no more. */
  keepOutput(bytes: Uint8Array): string | null {
    return this.#keep(`output-${this.#call}.txt`, bytes);
  }

  /** Keeps a figure; `number` from 1. */
  keepFigure(number: number, bytes: Uint8Array): string | null {
    return this.#keep(`figure-${this.#call}-${number}.png`, bytes);
  }

  #keep(name: string, bytes: Uint8Array): string | null {
    if (!this.#budget.take(bytes.length)) return null;
    this.#kept.push({ name, bytes });
    return name;
  }
}
