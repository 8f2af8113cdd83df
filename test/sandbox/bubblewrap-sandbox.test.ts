import { sandboxContract } from "../contract/sandbox.contract.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

sandboxContract("bubblewrap sandbox", {
  createHost: testSandboxHost,
  options: { image: "host", limits: TEST_LIMITS },
});
