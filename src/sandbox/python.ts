import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import workerSource from "./python-worker.py" with { type: "text" };
import type { SessionKind } from "./session.ts";
import { PYTHON_WORKER_PATH } from "./supervisor-script.ts";

const CELL_PATH = "/run/cell.py";
/** Where the worker puts a cell's figures, in a folder of the call's nonce. */
const FIGURES_PATH = "/run/figures";
const PNG_START = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** The sandbox's files, as the kind needs them; both throw sandbox_limit. */
export interface PythonFiles {
  write(path: string, text: string): void;
  read(path: string, bytesMax: number): Uint8Array | null;
}

/** The persistent Python worker: JSON lines in, output and marks out. A long cell goes through a file. */
export function pythonKind(files: PythonFiles): SessionKind {
  return {
    name: "python",
    // Written anew each time: the agent may have changed it.
    prepare: () => files.write(PYTHON_WORKER_PATH, workerSource),
    hello: (nonce) => `\n${JSON.stringify({ hello: true, nonce })}\n`,
    request(code, nonce) {
      const call = { nonce, figures: LIMITS.figuresMax };
      const inline = `${JSON.stringify({ ...call, code })}\n`;
      if (Buffer.byteLength(inline) <= LIMITS.sandboxPipeBytesMax) return inline;
      files.write(CELL_PATH, code);
      return `${JSON.stringify({ ...call, file: CELL_PATH })}\n`;
    },
    resync: null,
    clean: null,
    read([, signal, saved, lost], nonce) {
      const figures = readFigures(files, nonce, countOf(saved));
      const figuresLost = countOf(saved) - figures.length + countOf(lost);
      return { signal: signal === "SIGINT" ? signal : null, figures, figuresLost };
    },
    lost: "variables and imports are lost; files are kept.",
    missing: "the image has no python3",
    isCarried: false,
  };
}

/** The agent can put anything in their place: what is no PNG or too large is left out. */
function readFigures(files: PythonFiles, nonce: string, count: number): Uint8Array[] {
  return Array.from({ length: Math.min(count, LIMITS.figuresMax) }, (_, at) => at + 1).flatMap((number) => {
    try {
      const bytes = files.read(`${FIGURES_PATH}/${nonce}/${number}.png`, LIMITS.figureBytesMax);
      return bytes !== null && PNG_START.equals(bytes.subarray(0, PNG_START.length)) ? [bytes] : [];
    } catch (error) {
      if (error instanceof RolloutError && error.reason === "sandbox_limit") return [];
      throw error;
    }
  });
}

/** A number that the worker's mark holds, which the agent can forge: small and not negative. */
function countOf(word: string | undefined): number {
  return /^\d{1,4}$/.test(word ?? "") ? Number(word) : 0;
}
