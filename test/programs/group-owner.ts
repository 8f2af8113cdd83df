/** Makes control groups as a server does, with a process in one, says where, and waits to be killed. */
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { openCgroups } from "../../src/sandbox/cgroup.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { TEST_LIMITS } from "../support/sandbox-host.ts";

const groups = await openCgroups({ sandboxUid: TEST_SANDBOX_UID, clock: systemClock, log: silentLog });
const sleeper = Bun.spawn(["sleep", "600"], { stdio: ["ignore", "ignore", "ignore"] });
groups?.create(TEST_LIMITS).join(sleeper.pid);
console.log(JSON.stringify({ folders: groups?.folders ?? [], pid: sleeper.pid }));
await new Promise(() => {});
