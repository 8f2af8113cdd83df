import { chmod, lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

/** Deletes a folder with all that is in it, also where an image left folders that their owner may not write. */
export async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true });
  } catch {
    await openFolders(folder);
    await rm(folder, { recursive: true, force: true });
  }
}

/** Gives the owner every right on every folder below; symlinks are not followed. */
async function openFolders(top: string): Promise<void> {
  const pending = [top];
  for (let folder = pending.pop(); folder !== undefined; folder = pending.pop()) {
    if (!(await lstat(folder)).isDirectory()) continue;
    await chmod(folder, 0o700);
    for (const entry of await readdir(folder, { withFileTypes: true })) {
      if (entry.isDirectory()) pending.push(join(folder, entry.name));
    }
  }
}
