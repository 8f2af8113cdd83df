import { chmodSync, closeSync, constants, mkdtempSync, openSync, readdirSync, rmSync } from "node:fs";
import type { Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { tryLock } from "../../libc.ts";

const O_PATH = 0o10000000;
const PREFIX = "rolloutd-net-";

/**
 * Makes `server` listen on a Unix socket whose name is gone when this resolves, so that nobody finds it and a kill leaves
 * nothing. Gives a path descriptor, which the caller closes: whoever holds it connects to `/proc/self/fd/N`.
 */
export async function listenUnnamed(server: Server): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), PREFIX));
  const folderFd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    tryLock(folderFd, "exclusive");
    const path = join(folder, "proxy");
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(path, resolve);
    });
    chmodSync(path, 0o666); // its place is closed to others; the forwarder is another user
    return openSync(path, O_PATH);
  } finally {
    rmSync(folder, { recursive: true, force: true });
    closeSync(folderFd);
  }
}

/** Removes what servers left that were killed while one of their sockets still had a name; those of living ones are locked. */
export function sweepSockets(): void {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const folder = join(tmpdir(), name);
    try {
      const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      if (tryLock(fd, "exclusive")) rmSync(folder, { recursive: true, force: true });
      closeSync(fd);
    } catch {
      // gone meanwhile, or another user's
    }
  }
}
