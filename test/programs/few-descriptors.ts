/**
 * Starts sandboxes and programs while nearly all descriptors of the process are taken, with one more free each time, and
 * prints each attempt that does not reject with sandbox_lost or leaves a descriptor. Run it under `ulimit -n`.
 */
import { closeSync, openSync, readdirSync } from "node:fs";
import { systemClock } from "../../src/clock.ts";
import { RolloutError } from "../../src/errors.ts";
import { eventually } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

const FREE_MAX = 16;

const never = new AbortController().signal;
const options = { image: "host", limits: TEST_LIMITS };
const host = await testSandboxHost();
const starts = {
  open: () => host.open(options, never),
  start: () => host.start({ ...options, argv: ["sleep", "1000"] }, never),
};

async function attempt(start: () => Promise<AsyncDisposable>, free: number): Promise<string> {
  const taken: number[] = [];
  try {
    for (;;) taken.push(openSync("/dev/null", "r"));
  } catch {
    for (const fd of taken.splice(0, free)) closeSync(fd);
  }
  const outcome = start().then(
    async (lodger) => {
      await lodger[Symbol.asyncDispose]();
      return "started";
    },
    (error: unknown) => (error instanceof RolloutError ? error.reason : String(error)),
  );
  const hung = systemClock.sleep(5_000).then(() => "hangs");
  const said = await Promise.race([outcome, hung]);
  for (const fd of taken) closeSync(fd);
  return said;
}

const count = () => readdirSync("/proc/self/fd").length;
for (const start of Object.values(starts)) await (await start()).close();
let refused = 0;
for (const [name, start] of Object.entries(starts)) {
  for (let free = 0; free <= FREE_MAX; free += 1) {
    const before = count();
    const said = await attempt(start, free);
    if (said === "sandbox_lost") refused += 1;
    else if (said !== "started") console.log(`${name} with ${free} free: ${said}`);
    const isClean = await eventually(() => count() <= before);
    if (!isClean) console.log(`${name} with ${free} free left ${count() - before} descriptors`);
  }
}
await host.close();
console.log(refused > FREE_MAX ? "refused" : `refused only ${refused}`);
process.exit(0);
