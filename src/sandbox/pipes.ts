import { closeSync, fchownSync } from "node:fs";
import { openPipe } from "../libc.ts";

/** Both ends of a pipe between the server and a sandbox. */
export interface Pipe {
  ours: number;
  theirs: number;
}

/**
 * Opens all pipes of one sandbox, or none. `directions` says what the server does with its end; `uid` becomes the
 * pipes' owner, so that a program in the sandbox can open its own `/dev/stdout` again.
 */
export function openPipes<K extends string>(
  directions: Readonly<Record<K, "read" | "write">>,
  uid: number | null,
): Record<K, Pipe> {
  const opened: [string, Pipe][] = [];
  try {
    for (const [name, ours] of Object.entries<"read" | "write">(directions)) {
      const { readFd, writeFd } = openPipe(ours);
      opened.push([name, ours === "read" ? { ours: readFd, theirs: writeFd } : { ours: writeFd, theirs: readFd }]);
      if (uid !== null) fchownSync(readFd, uid, uid);
    }
    return Object.fromEntries(opened) as Record<K, Pipe>;
  } catch (error) {
    for (const [, pipe] of opened) for (const fd of [pipe.ours, pipe.theirs]) closeSync(fd);
    throw error;
  }
}
