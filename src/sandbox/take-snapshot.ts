import { deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import type { Cell } from "./cell.ts";
import type { CellHost } from "./cell-launch.ts";
import { holdStill } from "./hold-still.ts";
import type { SandboxLimits, SandboxSnapshot } from "./sandbox.ts";
import { archiveLayer, snapshotBytesMax } from "./snapshot.ts";

/** Keeps the writable layer of a sandbox, live or after its processes were killed; a live one stands still meanwhile. */
export async function takeSnapshot(
  { host, cell }: { host: CellHost; cell: Cell },
  { imageId, limits }: { imageId: string; limits: SandboxLimits },
  signal: AbortSignal,
): Promise<SandboxSnapshot> {
  const { snapshots, clock, stage } = host;
  const layer = cell.holdLayer();
  if (snapshots === null) throw new RolloutError("sandbox_limit", "this server keeps no snapshots");
  if (layer === null) throw new RolloutError("sandbox_lost", "the sandbox ended before a snapshot of it was made");
  const late = new RolloutError("sandbox_limit", `a snapshot took longer than ${LIMITS.snapshotMs} ms`);
  const limit = deadline(clock, LIMITS.snapshotMs, signal, late);
  try {
    return await snapshots.create(imageId, async (fileFd) => {
      const resume = cell.isLive ? await holdStill(cell.initPid, clock) : null;
      try {
        const bytesMax = snapshotBytesMax(limits);
        await archiveLayer(layer, { fileFd, bytesMax, sandboxUid: stage.sandboxUid, signal: limit.signal });
      } finally {
        resume?.();
      }
    });
  } finally {
    await limit.release();
  }
}
