import { closeSync } from "node:fs";
import type { Clock } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import type { Log } from "../log.ts";
import { ARGUMENTS_FD, bwrapArgs, encodeArgs } from "./bwrap-args.ts";
import type { Cgroups } from "./cgroup.ts";
import type { BoxGroup } from "./cgroup-box.ts";
import type { SandboxImage } from "./image.ts";
import type { NetworkHost } from "./network/sandbox-network.ts";
import { PipeReader } from "./pipe-reader.ts";
import { writeOrDrop } from "./pipes.ts";
import { type StartedProcess, startProcess, unnamedFileOf } from "./process.ts";
import type { SandboxLimits } from "./sandbox.ts";
import { filterForThisMachine } from "./seccomp.ts";
import type { SnapshotStore } from "./snapshot-store.ts";
import { SNAPSHOT_FD, type StageOptions, stageArgv, stageEnv, stageLayout } from "./stage.ts";

/** What every sandbox of one host has in common. */
export interface CellHost {
  stage: Pick<StageOptions, "bwrapPath" | "sandboxUid">;
  /** Null where no cgroup can be made: limits of processes are all there is then. */
  groups: Cgroups | null;
  /** Null where nothing is kept. */
  snapshots: SnapshotStore | null;
  network: NetworkHost;
  clock: Clock;
  log: Log;
  /** Called after each end: kills what a dead bwrap orphaned, where the server has a PID namespace of its own. */
  sweepOrphans: () => void;
}

export interface CellOptions {
  limits: SandboxLimits;
  image: SandboxImage;
  env: Readonly<Record<string, string>>;
  /** What runs as PID 1; it must say `up` on the control pipe. */
  command: readonly string[];
  /** Descriptors 0, 1, 2 and from 5 on, as the sandbox gets them; closed here once it has them. */
  stdio: readonly (number | null)[];
  extra: readonly number[];
  /** An archive to begin with; closed here once stage 1 has it, like the others. Null for a fresh sandbox. */
  snapshotFd: number | null;
  /** Our ends of the control pipes; owned by the cell from now on, like the others. */
  controlIn: number;
  controlOut: number;
  /** What PID 1 finds on its control pipe when it starts; empty for nothing. */
  firstWords: string;
  /** What the read end of `controlIn` is in the sandbox. */
  controlFd: number;
  /** Hears what PID 1 says after its first `up`; must not throw. */
  onLine: (line: string) => void;
}

/** What a start has made; the cell owns it from now on. */
export interface Launched {
  started: StartedProcess;
  control: PipeReader;
  group: BoxGroup | null;
  /** The folder that the sandbox writes to, as stage 1 sees it. */
  layer: string;
}

/** Starts stage 1 and moves it into its cgroup. Closes the sandbox's ends in every case, and ours when it throws. */
export async function launch(host: CellHost, options: CellOptions): Promise<Launched> {
  const toClose = new Set([...options.stdio, ...options.extra, options.snapshotFd].filter((fd) => fd !== null));
  const unnamed = (bytes: Uint8Array) => {
    const fd = unnamedFileOf(bytes);
    toClose.add(fd);
    return fd;
  };
  let control: PipeReader | null = null;
  let group: BoxGroup | null = null;
  try {
    group = host.groups?.create(options.limits) ?? null;
    control = new PipeReader(options.controlOut);
    const filter = unnamed(filterForThisMachine({ pretendsOwners: options.image.pretendsOwners ?? false }));
    const { image, env } = options;
    const isRestored = options.snapshotFd !== null;
    // The filter's place goes to the snapshot, which the shell of stage 1 must close.
    const seccompFd = isRestored ? ARGUMENTS_FD + 1 + options.extra.length : SNAPSHOT_FD;
    const layout = stageLayout(image, isRestored);
    const args = unnamed(encodeArgs(bwrapArgs({ image, layout, env, seccompFd })));
    const isMemoryGrouped = host.groups?.controllers.includes("memory") ?? false;
    const gateFd = group === null ? null : options.controlFd;
    const stage = { ...host.stage, limits: options.limits, isMemoryGrouped, gateFd, isRestored };
    const started = startProcess({
      argv: stageArgv(stage, image, options.command),
      env: stageEnv(stage, image),
      uid: stage.sandboxUid,
      stdio: isRestored
        ? [...options.stdio, options.snapshotFd, args, ...options.extra, filter]
        : [...options.stdio, filter, args, ...options.extra],
    });
    if (group !== null) await enterGroup(group, started, options.controlIn);
    writeOrDrop(options.controlIn, options.firstWords);
    return { started, control, group, layer: layout.layer };
  } catch (error) {
    // No descriptor or process was left on this machine, or stage 1 cannot be run.
    await control?.close();
    closeSync(options.controlIn);
    if (group !== null) await host.groups?.remove(group);
    throw new RolloutError("sandbox_lost", "a sandbox could not be started", { cause: error });
  } finally {
    for (const fd of toClose) closeSync(fd);
  }
}

/** Stage 1 waits for the line, so that bwrap and what it starts are never outside of the group. */
async function enterGroup(group: BoxGroup, started: StartedProcess, controlIn: number): Promise<void> {
  try {
    group.join(started.pid);
    writeOrDrop(controlIn, "go\n");
  } catch (error) {
    started.kill("SIGKILL");
    await started.exited;
    throw error;
  }
}
