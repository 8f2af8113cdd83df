import { systemClock } from "../../src/clock.ts";
import { cacheDir, searchPath } from "../../src/config.ts";
import { silentLog } from "../../src/log.ts";
import { bwrapCandidates, findBwrap } from "../../src/sandbox/find-bwrap.ts";
import { createSandboxHost } from "../../src/sandbox/host.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";

/** Kernel uid of sandboxes when root runs the tests. */
export const SANDBOX_UID = 61_234;

/** A real sandbox host with the bubblewrap that set-up made ready. The caller closes it. */
export async function aSandboxHost(): Promise<SandboxHost> {
  const candidates = bwrapCandidates(searchPath().join(":"), [cacheDir(), "/var/cache/rolloutd"]);
  const bwrap = await findBwrap(candidates);
  if (bwrap === null) throw new Error("no bubblewrap >= 0.12: run `bun run test`, which sets it up");
  return createSandboxHost({
    bwrapPath: bwrap.path,
    sandboxUid: SANDBOX_UID,
    images: [createHostImage({ usrLocal: false })],
    clock: systemClock,
    log: silentLog,
    sandboxesMax: 64,
    sweepOrphans: () => {},
  });
}
