import { closeSync, constants, existsSync, openSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { tryLock } from "../../src/libc.ts";
import { groupPlaces } from "../../src/sandbox/cgroup-tree.ts";
import { descendantsOf, isRunning } from "../../src/sandbox/process-tree.ts";

const WAIT_MS_MAX = 5_000;
const POLL_MS = 5;

/** What a test may leave behind: running processes below this one, mounts, names where roots are mounted, cgroups. */
export interface Residue {
  processes: number[];
  mounts: number;
  files: string[];
}

/** What there is now. */
export function residue(): Residue {
  return {
    processes: descendantsOf(process.pid).filter(isRunning),
    mounts: readFileSync("/proc/self/mountinfo", "utf8").split("\n").length,
    files: ["/mnt", "/srv", tmpdir()]
      .flatMap((folder) => readdirSync(folder).map((name) => `${folder}/${name}`))
      .filter((path) => !path.startsWith(tmpdir()) || path.includes("/rolloutd-net-"))
      .concat(groupsLeft()),
  };
}

/** Folders that servers left where a server of ours makes its groups: one that runs, such as another test's, holds a lock. */
function groupsLeft(): string[] {
  const texts = {
    mountinfo: readFileSync("/proc/self/mountinfo", "utf8"),
    cgroup: readFileSync("/proc/self/cgroup", "utf8"),
  };
  return groupPlaces(texts, process.getuid?.() === 0).flatMap(({ folder }) => {
    const names = existsSync(folder) ? readdirSync(folder) : [];
    return names
      .filter((name) => name.startsWith("rolloutd-"))
      .map((name) => join(folder, name))
      .filter(isAbandoned);
  });
}

function isAbandoned(folder: string): boolean {
  try {
    const fd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
    const isFree = tryLock(fd, "exclusive");
    closeSync(fd);
    return isFree;
  } catch {
    return false; // gone meanwhile
  }
}

/** Waits until nothing is left that was not there at `before`; gives what still is. */
export async function leftSince(before: Residue): Promise<{ processes: string[]; mounts: number; files: string[] }> {
  const look = () => {
    const now = residue();
    return {
      processes: now.processes.filter((pid) => !before.processes.includes(pid)).map(describeProcess),
      mounts: now.mounts - before.mounts,
      files: now.files.filter((file) => !before.files.includes(file)),
    };
  };
  let left = look();
  for (let waited = 0; waited < WAIT_MS_MAX && left.processes.length + left.files.length > 0; waited += POLL_MS) {
    await systemClock.sleep(POLL_MS);
    left = look();
  }
  return left;
}

/** Nothing, in the shape of `leftSince`. */
export const NOTHING = { processes: [], mounts: 0, files: [] };

/** Pids of all processes on the machine whose command line holds `mark`, without this one. */
export function processesMarked(mark: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && commandLine(pid).includes(mark));
}

/** Waits until `holds`; false when it never did within `ms`. */
export async function eventually(holds: () => boolean, ms = WAIT_MS_MAX): Promise<boolean> {
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) return false;
    await systemClock.sleep(POLL_MS);
  }
  return true;
}

function commandLine(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "latin1");
  } catch {
    return "";
  }
}

function describeProcess(pid: number): string {
  return `${pid} ${commandLine(pid).replaceAll("\0", " ").slice(0, 80)}`;
}
