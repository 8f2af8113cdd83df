import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { createSandboxHost, type SandboxHostOptions } from "../../src/sandbox/host.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import { resolveHost } from "../../src/sandbox/network/addresses.ts";
import type { SandboxHost, SandboxLimits } from "../../src/sandbox/sandbox.ts";
import { TEST_SANDBOX_UID, testBwrap } from "./bwrap.ts";

export const TEST_LIMITS: SandboxLimits = {
  memoryBytes: 1 << 30,
  diskBytes: 32 << 20,
  inodesMax: 100_000,
  pidsMax: 64,
  openFilesMax: 4_096,
  fileBytes: 32 << 20,
  cpuMs: 600_000,
};

/** A real host with the image `host`, as the server makes it. */
export async function testSandboxHost(over: Partial<SandboxHostOptions> = {}): Promise<SandboxHost> {
  return createSandboxHost({
    bwrapPath: await testBwrap(),
    sandboxUid: TEST_SANDBOX_UID,
    images: fixedCatalog([createHostImage({ usrLocal: false })]),
    network: { admitted: [], resolve: resolveHost },
    groups: null,
    snapshots: null,
    warmMax: 0,
    clock: systemClock,
    log: silentLog,
    sandboxesMax: 64,
    sweepOrphans: () => {},
    ...over,
  });
}
