import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { CONTROLLERS, ownGroupFolder, SERVER_LEAF } from "./cgroup-tree.ts";

/**
 * Moves this process into the leaf `server` of its own version 2 group, which must have no processes itself to give
 * controllers to its sandboxes. To be called before the launcher starts anything: what comes later follows. Does nothing
 * where the group is not ours alone or not ours to write; then there are no groups for sandboxes there.
 */
export function enterLeafGroup(): void {
  try {
    const own = ownGroupFolder({ mountinfo: textOf("/proc/self/mountinfo"), cgroup: textOf("/proc/self/cgroup") });
    if (own === null || basename(own) === SERVER_LEAF) return;
    const controllers = textOf(join(own, "cgroup.controllers")).trim().split(" ");
    const isAlone = textOf(join(own, "cgroup.procs")).trim() === String(process.pid);
    if (!isAlone || !CONTROLLERS.some((name) => controllers.includes(name))) return;
    mkdirSync(join(own, SERVER_LEAF), { recursive: true });
    writeFileSync(join(own, SERVER_LEAF, "cgroup.procs"), String(process.pid));
  } catch {
    // EACCES, EROFS: `serve` says what is then not enforced
  }
}

function textOf(file: string): string {
  return readFileSync(file, "utf8");
}
