import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { createSandboxHost } from "../../src/sandbox/host.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import { resolveHost } from "../../src/sandbox/network/addresses.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { eventually, leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const options = { image: "host", limits: TEST_LIMITS };

function hostWith(changes: object) {
  return createSandboxHost({
    bwrapPath: "/nowhere/bwrap",
    sandboxUid: TEST_SANDBOX_UID,
    images: fixedCatalog([createHostImage({ usrLocal: false })]),
    network: { admitted: [], resolve: resolveHost },
    groups: null,
    snapshots: null,
    warmMax: 0,
    clock: systemClock,
    log: silentLog,
    sandboxesMax: 2,
    sweepOrphans: () => {},
    ...changes,
  });
}

describe("createSandboxHost", () => {
  test("rejects a start that fails with what bwrap or its stage said, and leaves nothing", async () => {
    const before = residue();
    const host = hostWith({});
    expect(host.open(options, never)).rejects.toThrow(/sandbox_lost.*\/nowhere\/bwrap/);
    expect(host.start({ ...options, argv: ["true"] }, never)).rejects.toThrow(/sandbox_lost.*\/nowhere\/bwrap/);
    await host.close();
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("rejects with sandbox_lost when the files do not fit on the disk", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost(), (each) => each.close());
    const files = [{ path: "/workspace/big", bytes: new Uint8Array(TEST_LIMITS.diskBytes + 1) }];
    expect(host.open({ ...options, files }, never)).rejects.toThrow("sandbox_lost");
    await eventually(() => host.live === 0);
    expect(host.live).toBe(0);
  });

  test("counts what lives and refuses one more than its bound", async () => {
    await using closer = new AsyncDisposableStack();
    const { testBwrap } = await import("../support/bwrap.ts");
    const host = closer.adopt(hostWith({ bwrapPath: await testBwrap() }), (each) => each.close());
    const boxes = await Promise.all([host.open(options, never), host.open(options, never)]);
    expect(host.live).toBe(2);
    expect(host.open(options, never)).rejects.toThrow("2 sandboxes live already");
    await boxes[0]?.close();
    await (await host.open(options, never)).close();
  });

  test("refuses to run sandboxes as root", () => {
    if (process.getuid?.() !== 0) return; // only root could
    expect(() => hostWith({ sandboxUid: 0 })).toThrow("other than 0");
    expect(() => hostWith({ sandboxUid: null })).toThrow("other than 0");
  });

  test("gives back every descriptor of 20 sandboxes and programs", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost(), (each) => each.close());
    const once = async () => {
      await using box = await host.open(options, never);
      await box.shell("true", { timeoutMs: 5_000, signal: never });
      await box.python("1", { timeoutMs: 5_000, signal: never });
      await using program = await host.start({ ...options, argv: ["true"] }, never);
      await program.wait(never);
    };
    const pipes = () => readdirSync("/proc/self/fd").length;
    await once();
    const before = pipes();
    for (let i = 0; i < 20; i += 1) await once();
    expect(await eventually(() => pipes() <= before + 4)).toBe(true);
  });
});

describe("SandboxHost", () => {
  test("rejects with sandbox_lost and leaves no descriptor when the process has none left", async () => {
    const program = join(import.meta.dir, "../programs/few-descriptors.ts");
    const argv = ["/bin/sh", "-c", 'ulimit -n 4096 && exec "$0" "$1"', process.execPath, program];
    const child = Bun.spawn(argv, { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
    expect(await new Response(child.stdout).text()).toBe("refused\n");
    expect(await child.exited).toBe(0);
  });

  test("leaves no process or descriptor when starts, calls and closes are aborted at any moment", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost(), (each) => each.close());
    const use = async (stop: AbortSignal, i: number) => {
      if (i % 3 === 0) {
        await using program = await host.start({ ...options, argv: ["cat"] }, stop);
        void program.write("line\n");
        await program.readLine(stop);
        await program.wait(stop); // for ever: its stdin stays open
      }
      await using box = await host.open(options, stop);
      await box.shell("sleep 0.005", { timeoutMs: 1 + (i % 20), signal: stop });
      if (i % 4 === 0) void box.close();
      if (i % 5 === 0) void box.killProcesses();
      await box.python("1", { timeoutMs: 1_000, signal: stop });
    };
    const aborted = async (i: number) => {
      const stop = new AbortController();
      const used = use(stop.signal, i).catch(() => {});
      await systemClock.sleep((i * 7) % 60);
      stop.abort(new Error("by the test"));
      await used;
    };
    const descriptors = () => readdirSync("/proc/self/fd").length;
    const before = residue();
    await aborted(1);
    const count = descriptors();
    for (let i = 0; i < 120; i += 6) await Promise.all([0, 1, 2, 3, 4, 5].map((k) => aborted(i + k)));
    expect(host.live).toBe(0);
    expect(await leftSince(before)).toEqual(NOTHING);
    expect(await eventually(() => descriptors() <= count)).toBe(true);
  });
});

describe("createHostImage", () => {
  test("names itself by the package database, and differently with /usr/local", () => {
    const [plain, again, local] = [false, false, true].map((usrLocal) => createHostImage({ usrLocal }));
    expect(plain?.id).toMatch(/^host-[0-9a-f]{16}$/);
    expect(plain?.id).toBe(again?.id ?? "");
    expect(local?.id).not.toBe(plain?.id ?? "");
  });

  test("hides /usr/local unless it is asked for", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost(), (each) => each.close());
    await using box = await host.open(options, never);
    expect((await box.shell("ls -A /usr/local", { timeoutMs: 5_000, signal: never })).output).toBe("");
  });

  test("runs python3, awk and a commit with git", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost(), (each) => each.close());
    await using box = await host.open(options, never);
    const commands =
      "python3 -c 'import json, math; print(math.pi)' && echo a b | awk '{print $2}' && whoami && git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m first && git log --format=%s";
    const result = await box.shell(commands, { timeoutMs: 10_000, signal: never });
    expect(result.output).toEndWith("b\nroot\nfirst\n");
  });
});
