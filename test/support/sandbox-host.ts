import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { createSandboxHost } from "../../src/sandbox/host.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import type { SandboxHost, SandboxLimits } from "../../src/sandbox/sandbox.ts";
import { TEST_SANDBOX_UID, testBwrap } from "./bwrap.ts";

export const TEST_LIMITS: SandboxLimits = { memoryBytes: 1 << 30, diskBytes: 32 << 20, pidsMax: 64 };

/** A real host with the image `host`, as the server makes it. */
export async function testSandboxHost(): Promise<SandboxHost> {
  return createSandboxHost({
    bwrapPath: await testBwrap(),
    sandboxUid: TEST_SANDBOX_UID,
    images: fixedCatalog([createHostImage({ usrLocal: false })]),
    clock: systemClock,
    log: silentLog,
    sandboxesMax: 64,
    sweepOrphans: () => {},
  });
}
