import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

/** A folder to try things in as a server would in its data folder. */
export interface TryFolder {
  path: string;
  [Symbol.dispose](): void;
}

/**
 * The data folder itself where it is there, else one beside it that is removed on disposal: who only looks makes no data
 * folder, and finds what a server would find on the same disk.
 */
export function openTryFolder(dataDir: string): TryFolder {
  const folder = resolve(dataDir);
  if (existsSync(folder)) return { path: folder, [Symbol.dispose]() {} };
  let parent = dirname(folder);
  while (!existsSync(parent)) parent = dirname(parent);
  try {
    const path = mkdtempSync(join(parent, ".rolloutd-doctor-"));
    return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
  } catch {
    return { path: folder, [Symbol.dispose]() {} }; // a server cannot make one either, and what it says then is said
  }
}
