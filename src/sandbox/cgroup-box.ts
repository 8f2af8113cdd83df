import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../clock.ts";
import { LIMITS } from "../limits.ts";
import type { Controller } from "./cgroup-tree.ts";
import { signalProcess } from "./process-tree.ts";
import type { SandboxLimits } from "./sandbox.ts";

/** A folder of ours in one hierarchy, and what it bounds there. */
export interface GroupFolder {
  version: 1 | 2;
  folder: string;
  controllers: readonly Controller[];
}

/** Of supervisors, bwrap, and the kernel's own for them; a sandbox that does nothing uses 1 to 3 MB. */
const OWN_MEMORY_BYTES = 32 * 1024 * 1024;
/** Kernel memory of one file or folder of a tmpfs, which the group is charged with. */
const INODE_BYTES = 1_280;
const POLL_MS = 1;

/** The control groups of one sandbox, one in each hierarchy. */
export class BoxGroup {
  readonly #folders: readonly GroupFolder[];
  #favouredUntilMs = Number.POSITIVE_INFINITY;
  #yields = false;

  private constructor(folders: readonly GroupFolder[]) {
    this.#folders = folders;
  }

  /** Makes the groups `name` below `parents`. Throws, and leaves none, when one of them cannot be made or bounded. */
  static create(parents: readonly GroupFolder[], name: string, limits: SandboxLimits): BoxGroup {
    const made: GroupFolder[] = [];
    try {
      for (const parent of parents) {
        const folder = join(parent.folder, name);
        mkdirSync(folder);
        made.push({ ...parent, folder });
        for (const [file, value] of settingsOf(parent, limits)) writeFileSync(join(folder, file), value);
      }
      for (const each of made) boundSwap(each, limits);
      return new BoxGroup(made);
    } catch (error) {
      for (const { folder } of made) rmdirSync(folder);
      throw error;
    }
  }

  /** Moves a process, and with it what it will start. Throws when it is gone or may not be moved. */
  join(pid: number): void {
    for (const { folder } of this.#folders) writeFileSync(join(folder, "cgroup.procs"), String(pid));
  }

  /** Has the sandbox answer before those that do not, until `untilMs` of `performance.now`. */
  favour(untilMs: number): void {
    this.#favouredUntilMs = untilMs;
    if (this.#yields) this.#setYields(false);
  }

  /** Has it give way to favoured ones once its time is over; false while it is not. */
  yieldAt(nowMs: number): boolean {
    if (nowMs < this.#favouredUntilMs) return false;
    if (!this.#yields) this.#setYields(true);
    return true;
  }

  #setYields(yields: boolean): void {
    this.#yields = yields;
    for (const { controllers, folder } of this.#folders) {
      if (controllers.includes("cpu")) writeIfThere(join(folder, "cpu.idle"), yields ? "1" : "0");
    }
  }

  /** How often the kernel killed a process of the sandbox because its memory was used up. */
  memoryKills(): number {
    const own = this.#folders.find(({ controllers }) => controllers.includes("memory"));
    if (own === undefined) return 0;
    const text = textOf(join(own.folder, own.version === 2 ? "memory.events" : "memory.oom_control"));
    return Number(/^oom_kill (\d+)$/m.exec(text)?.[1] ?? 0);
  }

  /** Kills what is still in the groups and removes them; false when they could not be removed within the bound. */
  async remove(clock: Clock): Promise<boolean> {
    for (let ms = 0; ms < LIMITS.sandboxKillMs; ms += POLL_MS) {
      if (this.#folders.map(({ folder }) => emptied(folder)).every((isGone) => isGone)) return true;
      await clock.sleep(POLL_MS);
    }
    return false;
  }
}

/** Kills what is in one group and tries to remove it; true when it is gone. */
export function emptied(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    if (isMissing(error)) return true;
  }
  try {
    writeFileSync(join(folder, "cgroup.kill"), "1"); // version 2, Linux 5.14
  } catch {
    // Pids of another PID namespace are shown as 0: their server's namespace died with all in it.
    const pids = textOf(join(folder, "cgroup.procs")).split("\n").map(Number);
    for (const pid of pids) if (pid > 1) signalProcess(pid, "SIGKILL");
  }
  return false;
}

/**
 * The disk is a tmpfs, so it counts as memory: the bound lies above both, and a full disk cannot kill a process. All
 * groups have the same weight: the busy ones share the processors evenly.
 */
function settingsOf({ version, controllers }: GroupFolder, limits: SandboxLimits): [string, string][] {
  const settings: [string, string][] = [];
  if (controllers.includes("memory")) {
    settings.push([version === 2 ? "memory.max" : "memory.limit_in_bytes", String(memoryOf(limits))]);
  }
  if (controllers.includes("pids")) settings.push(["pids.max", String(limits.pidsMax + LIMITS.sandboxOwnProcesses)]);
  return settings;
}

function memoryOf({ memoryBytes, diskBytes, inodesMax }: SandboxLimits): number {
  return memoryBytes + diskBytes + inodesMax * INODE_BYTES + OWN_MEMORY_BYTES;
}

/** Swap would make the bound twice as large. */
function boundSwap({ version, controllers, folder }: GroupFolder, limits: SandboxLimits): void {
  if (!controllers.includes("memory")) return;
  const [file, value] =
    version === 2 ? ["memory.swap.max", "0"] : ["memory.memsw.limit_in_bytes", String(memoryOf(limits))];
  writeIfThere(join(folder, file), value);
}

/** An older kernel does not have every file; a group that is being removed has none. */
function writeIfThere(file: string, value: string): void {
  try {
    writeFileSync(file, value, { flag: "r+" });
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
}

function textOf(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
