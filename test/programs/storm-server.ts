/**
 * A server for the launcher's tests: starts sandboxes without end, 16 at once, each with a daemon, some with a network or
 * from the pool, and keeps snapshots of some; drains on TERM. It goes on when sandboxes of its are killed.
 * Arguments: path of bwrap, folder name that marks its processes, "storm" or "idle", folder for snapshots.
 */
import { systemClock } from "../../src/clock.ts";
import { RolloutError } from "../../src/errors.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { enterNamespace, outerPid, resumeInNamespace, sweepOrphans } from "../../src/launcher.ts";
import { silentLog } from "../../src/log.ts";
import { parseNetworkRule } from "../../src/network-rule.ts";
import { openCgroups } from "../../src/sandbox/cgroup.ts";
import { createSandboxHost } from "../../src/sandbox/host.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import { resolveHost } from "../../src/sandbox/network/addresses.ts";
import { SnapshotStore } from "../../src/sandbox/snapshot-store.ts";

const IN_FLIGHT = 16;
const LIVE_MAX = 40;

resumeInNamespace();
enterNamespace();
const [bwrapPath = "", mark = "", mode = "idle", folder = ""] = process.argv.slice(2);
const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => stop.abort());
const sandboxUid = process.getuid?.() === 0 ? 61_234 : null;
const host = createSandboxHost({
  bwrapPath,
  sandboxUid,
  images: fixedCatalog([createHostImage({ usrLocal: false })]),
  network: { admitted: [], resolve: resolveHost },
  groups: await openCgroups({ sandboxUid, clock: systemClock, log: silentLog }),
  snapshots: folder === "" ? null : new SnapshotStore({ folder, sandboxUid, clock: systemClock }),
  warmMax: 4,
  clock: systemClock,
  log: silentLog,
  sandboxesMax: 100,
  sweepOrphans,
});
host.removeAllSnapshots();
console.log(`READY ${outerPid()} ${process.env.BUN_CONFIG_MAX_HTTP_REQUESTS}`);

const network = [parseNetworkRule("open.example:443")].filter((rule) => rule !== null);

async function keepStarting(_: unknown, worker: number): Promise<void> {
  const kind = [{ cwd: `/${mark}` }, { cwd: `/${mark}`, network }, {}][worker % 3];
  while (!stop.signal.aborted) {
    try {
      const sandbox = await host.open({ image: "host", limits: DEFAULT_LIMITS, ...kind }, stop.signal);
      await sandbox.shell("setsid sleep 86400 & true", { timeoutMs: 10_000, signal: stop.signal });
      if (folder !== "" && worker % 5 === 0) host.removeSnapshot((await sandbox.snapshot(stop.signal)).id);
      if (host.live > LIVE_MAX) await sandbox.close();
    } catch (error) {
      // The tests kill parts of sandboxes, which then end.
      if (!stop.signal.aborted && !(error instanceof RolloutError)) throw error;
    }
  }
}

if (mode === "storm") await Promise.allSettled(Array.from({ length: IN_FLIGHT }, keepStarting));
else await new Promise((resolve) => stop.signal.addEventListener("abort", resolve));
console.log("DRAINED");
await host.close();
process.exit(0);
