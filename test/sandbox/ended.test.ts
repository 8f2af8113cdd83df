import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { descendantsOf } from "../../src/sandbox/process-tree.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const options = { image: "host", limits: TEST_LIMITS };
let host: SandboxHost;

beforeAll(async () => {
  host = await testSandboxHost();
});
afterAll(() => host.close());

describe("ended", () => {
  test("is limit when the agent brings down PID 1", async () => {
    await using sandbox = await host.open(options, never);
    const code = `
import os, re
maps = open("/proc/1/maps").read()
with open("/proc/1/mem", "r+b", buffering=0) as memory:
    for line in maps.splitlines():
        span, mode = line.split()[:2]
        if "x" in mode and "[" not in line:
            start, end = (int(part, 16) for part in span.split("-"))
            memory.seek(start); memory.write(b"\\xcc" * (end - start))
for pid in os.listdir("/proc"):
    if pid.isdigit() and int(pid) not in (1, os.getpid()): os.kill(int(pid), 9)`;
    await sandbox.python(code, { timeoutMs: 5_000, signal: never }).catch(() => {});
    expect(await sandbox.ended).toBe("limit");
    expect(sandbox.shell("true", { timeoutMs: 1_000, signal: never })).rejects.toThrow("sandbox_limit");
  });

  test("is lost when bwrap is killed from outside", async () => {
    const now = residue();
    await using sandbox = await host.open(options, never);
    const [monitor] = descendantsOf(process.pid).filter((pid) => !now.processes.includes(pid));
    process.kill(monitor ?? 0, "SIGKILL");
    expect(await sandbox.ended).toBe("lost");
    expect(await leftSince(now)).toEqual(NOTHING);
    expect(sandbox.shell("true", { timeoutMs: 1_000, signal: never })).rejects.toThrow("sandbox_lost");
  });
});
