/**
 * A server for the launcher's tests: starts sandboxes without end, 16 at once, each with a daemon, and drains on TERM.
 * Arguments: path of bwrap, folder name that marks its processes, "storm" or "idle".
 */
import { systemClock } from "../../src/clock.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { enterNamespace, outerPid, resumeInNamespace, sweepOrphans } from "../../src/launcher.ts";
import { silentLog } from "../../src/log.ts";
import { openCgroups } from "../../src/sandbox/cgroup.ts";
import { createSandboxHost } from "../../src/sandbox/host.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import { resolveHost } from "../../src/sandbox/network/addresses.ts";

const IN_FLIGHT = 16;
const LIVE_MAX = 40;

resumeInNamespace();
enterNamespace();
const [bwrapPath = "", mark = "", mode = "idle"] = process.argv.slice(2);
const stop = new AbortController();
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => stop.abort());
const sandboxUid = process.getuid?.() === 0 ? 61_234 : null;
const host = createSandboxHost({
  bwrapPath,
  sandboxUid,
  images: fixedCatalog([createHostImage({ usrLocal: false })]),
  network: { admitted: [], resolve: resolveHost },
  groups: await openCgroups({ sandboxUid, clock: systemClock, log: silentLog }),
  snapshots: null,
  warmMax: 0,
  clock: systemClock,
  log: silentLog,
  sandboxesMax: 100,
  sweepOrphans,
});
console.log(`READY ${outerPid()} ${process.env.BUN_CONFIG_MAX_HTTP_REQUESTS}`);

async function keepStarting(): Promise<void> {
  while (!stop.signal.aborted) {
    const sandbox = await host.open({ image: "host", limits: DEFAULT_LIMITS, cwd: `/${mark}` }, stop.signal);
    await sandbox.shell("setsid sleep 86400 & true", { timeoutMs: 10_000, signal: stop.signal });
    if (host.live > LIVE_MAX) await sandbox.close();
  }
}

if (mode === "storm") await Promise.allSettled(Array.from({ length: IN_FLIGHT }, keepStarting));
else await new Promise((resolve) => stop.signal.addEventListener("abort", resolve));
console.log("DRAINED");
await host.close();
process.exit(0);
