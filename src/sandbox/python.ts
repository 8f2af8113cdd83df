import { LIMITS } from "../limits.ts";
import workerSource from "./python-worker.py" with { type: "text" };
import type { SessionKind } from "./session.ts";
import { PYTHON_WORKER_PATH } from "./supervisor-script.ts";

const CELL_PATH = "/run/cell.py";

/** The persistent Python worker: JSON lines in, output and marks out. A long cell goes through a file. */
export function pythonKind(writeFile: (path: string, text: string) => void): SessionKind {
  return {
    name: "python",
    // Written anew each time: the agent may have changed it.
    prepare: () => writeFile(PYTHON_WORKER_PATH, workerSource),
    hello: (nonce) => `\n${JSON.stringify({ hello: true, nonce })}\n`,
    request(code, nonce) {
      const inline = `${JSON.stringify({ nonce, code })}\n`;
      if (Buffer.byteLength(inline) <= LIMITS.sandboxPipeBytesMax) return inline;
      writeFile(CELL_PATH, code);
      return `${JSON.stringify({ nonce, file: CELL_PATH })}\n`;
    },
    resync: null,
    clean: (output) => output,
    lost: "variables and imports are lost; files are kept.",
  };
}
