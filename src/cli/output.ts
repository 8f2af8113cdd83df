import { accessSync, closeSync, constants, openSync } from "node:fs";
import { CliError } from "./api-client.ts";

/**
 * Writes a line to stdout and waits until it is taken. Rejects with EPIPE when the reader is gone (`| head`), which
 * console.log does not say: a command that prints without end would go on for nobody.
 */
export function printLine(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${line}\n`, (error) => (error ? reject(error) : resolve()));
  });
}

/** Throws CliError when `path` cannot be written as a file; what stands there is not touched yet. */
export function checkWritable(path: string): void {
  try {
    closeSync(openSync(path, "a"));
    accessSync(path, constants.W_OK);
  } catch (cause) {
    throw new CliError(
      `--out ${path}: cannot be written (${cause instanceof Error ? cause.message : String(cause)})`,
      2,
    );
  }
}

/** Does `work`; Ctrl-C ends it with exit code 130 and `message`, which says how to go on. */
export async function untilInterrupted<T>(work: () => Promise<T>, message: () => string): Promise<T> {
  const interrupted = Promise.withResolvers<never>();
  const onSignal = () => interrupted.reject(new CliError(message(), 130));
  process.once("SIGINT", onSignal);
  try {
    return await Promise.race([work(), interrupted.promise]);
  } finally {
    process.off("SIGINT", onSignal);
  }
}
