import { closeSync, fchownSync, writeSync } from "node:fs";
import { openPipe } from "../libc.ts";

/** Both ends of a pipe between the server and a sandbox. */
export interface Pipe {
  ours: number;
  theirs: number;
}

/** Descriptors that nobody owns yet: those that were not taken over when it is disposed are closed. */
export class LooseDescriptors implements Disposable {
  readonly #held = new Set<number>();

  hold(fd: number): void {
    this.#held.add(fd);
  }

  /** Gives `fd` back: the caller closes it from now on. */
  take(fd: number): number {
    this.#held.delete(fd);
    return fd;
  }

  [Symbol.dispose](): void {
    for (const fd of this.#held) closeSync(fd);
  }
}

/**
 * Opens all pipes of one sandbox; `loose` holds both ends of each. `directions` says what the server does with its end; `uid` becomes the
 * pipes' owner, so that a program in the sandbox can open its own `/dev/stdout` again.
 */
export function openPipes<K extends string>(
  directions: Readonly<Record<K, "read" | "write">>,
  uid: number | null,
  loose: LooseDescriptors,
): Record<K, Pipe> {
  const opened: [string, Pipe][] = [];
  for (const [name, ours] of Object.entries<"read" | "write">(directions)) {
    const { readFd, writeFd } = openPipe(ours);
    for (const fd of [readFd, writeFd]) loose.hold(fd);
    opened.push([name, ours === "read" ? { ours: readFd, theirs: writeFd } : { ours: writeFd, theirs: readFd }]);
    if (uid !== null) fchownSync(readFd, uid, uid);
  }
  return Object.fromEntries(opened) as Record<K, Pipe>;
}

/** Writes to a pipe that never blocks the server; says whether all of it was taken. */
export function writeOrDrop(fd: number, text: string): boolean {
  const bytes = Buffer.from(text);
  try {
    return writeSync(fd, bytes) === bytes.length;
  } catch {
    return false; // EAGAIN: the pipe is full; EPIPE: nobody is left
  }
}
