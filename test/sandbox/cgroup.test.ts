import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { type Cgroups, openCgroups } from "../../src/sandbox/cgroup.ts";
import { BoxGroup } from "../../src/sandbox/cgroup-box.ts";
import { groupPlaces } from "../../src/sandbox/cgroup-tree.ts";
import { describeLack, enforcementOf } from "../../src/sandbox/enforcement.ts";
import { descendantsOf, isRunning } from "../../src/sandbox/process-tree.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { eventually, leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const call = { timeoutMs: 20_000, signal: never };
const options = { sandboxUid: TEST_SANDBOX_UID, clock: systemClock, log: silentLog };

const V1 = `30 24 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate`;
const V2 = "31 30 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw";

describe("groupPlaces", () => {
  const foldersOf = (mountinfo: string, cgroup: string, isRoot = false) =>
    groupPlaces({ mountinfo, cgroup }, isRoot).map(({ version, folder }) => `${version} ${folder}`);

  test("finds each version 1 hierarchy at the server's own group, then where an administrator may have made one", () => {
    const cgroup = "4:memory:/a/b\n3:cpu,cpuacct:/\n0::/user.slice\n";
    expect(foldersOf(V1, cgroup)).toEqual([
      "1 /sys/fs/cgroup/memory/a/b",
      "1 /sys/fs/cgroup/memory/a/b/rolloutd",
      "1 /sys/fs/cgroup/memory/rolloutd",
      "1 /sys/fs/cgroup/cpu,cpuacct",
      "1 /sys/fs/cgroup/cpu,cpuacct/rolloutd",
      "2 /sys/fs/cgroup/unified/user.slice",
    ]);
  });

  test("takes the delegated group above the leaf that the server lives in, and the top only for root", () => {
    const cgroup = "0::/system.slice/rolloutd.service/server\n";
    expect(foldersOf(V2, cgroup)).toEqual(["2 /sys/fs/cgroup/system.slice/rolloutd.service"]);
    expect(foldersOf(V2, "0::/a\n", true)).toEqual(["2 /sys/fs/cgroup/a", "2 /sys/fs/cgroup"]);
  });

  test("follows a mount that shows a part of the hierarchy, and takes none that shows another part", () => {
    const shown = V2.replace("0:27 / ", "0:27 /docker/x ");
    expect(foldersOf(shown, "0::/docker/x/y\n")).toEqual(["2 /sys/fs/cgroup/y"]);
    expect(foldersOf(shown, "0::/\n")).toEqual(["2 /sys/fs/cgroup"]);
    expect(foldersOf(shown, "0::/other\n")).toEqual([]);
    expect(foldersOf(shown, "0::/../other\n")).toEqual([]);
    expect(foldersOf("", "")).toEqual([]);
  });
});

/** Folders with the files that the kernel would put there: enough to see what is written. */
describe("BoxGroup of version 2", () => {
  test("bounds memory above the disk, swap at nothing and processes with our own, and counts kills", () => {
    const folder = mkdtempSync("/tmp/rolloutd-group-");
    const parent = { version: 2, folder, controllers: ["memory", "pids", "cpu"] } as const;
    mkdirSync(join(folder, "gone"));
    const group = BoxGroup.create([parent], "box-1", TEST_LIMITS);
    const read = (name: string) => readFileSync(join(folder, "box-1", name), "utf8");
    const memory = Number(read("memory.max"));
    expect(memory).toBeGreaterThan(TEST_LIMITS.memoryBytes + TEST_LIMITS.diskBytes);
    expect(memory).toBeLessThan((TEST_LIMITS.memoryBytes + TEST_LIMITS.diskBytes) * 1.5);
    expect(Number(read("pids.max"))).toBeGreaterThan(TEST_LIMITS.pidsMax);
    group.join(1_234);
    expect(read("cgroup.procs")).toBe("1234");
    writeFileSync(join(folder, "box-1", "memory.events"), "low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\n");
    expect(group.memoryKills()).toBe(2);
    rmSync(folder, { recursive: true });
  });

  test("goes before others until its time is over, and again when it is favoured again", () => {
    const folder = mkdtempSync("/tmp/rolloutd-group-");
    const group = BoxGroup.create([{ version: 2, folder, controllers: ["cpu"] }], "box-1", TEST_LIMITS);
    const file = join(folder, "box-1", "cpu.idle");
    group.favour(100);
    expect(group.yieldAt(200)).toBe(true); // an older kernel does not have the file
    writeFileSync(file, "");
    group.favour(300);
    expect(readFileSync(file, "utf8")).toBe("0");
    expect(group.yieldAt(299)).toBe(false);
    expect(group.yieldAt(300)).toBe(true);
    expect(readFileSync(file, "utf8")).toBe("1");
    rmSync(folder, { recursive: true });
  });
});

/** The machine's version 2 hierarchy, if root may make groups in it: it need not have our controllers. */
const unified = readFileSync("/proc/self/mounts", "utf8").match(/^\S+ (\S+) cgroup2 rw/m)?.[1] ?? null;

describe("BoxGroup on the kernel's version 2", () => {
  test.if(unified !== null && process.getuid?.() === 0)(
    "takes a process in and kills it when it is removed",
    async () => {
      const folder = join(unified ?? "", `rolloutd-test-${process.pid}`);
      mkdirSync(folder);
      const sleeper = Bun.spawn(["sleep", "600"], { stdio: ["ignore", "ignore", "ignore"] });
      const group = BoxGroup.create([{ version: 2, folder, controllers: [] }], "box-1", TEST_LIMITS);
      group.join(sleeper.pid);
      expect(readFileSync(`/proc/${sleeper.pid}/cgroup`, "utf8")).toContain(`rolloutd-test-${process.pid}/box-1`);
      expect(await group.remove(systemClock)).toBe(true);
      await sleeper.exited;
      expect(sleeper.signalCode).toBe("SIGKILL");
      expect(readdirSync(folder, { withFileTypes: true }).filter((entry) => entry.isDirectory())).toEqual([]);
      rmdirSync(folder);
    },
  );
});

const groups = await openCgroups(options);
await groups?.[Symbol.asyncDispose]();
/** Without a writable hierarchy the rest cannot be tried: bun shows those tests as skipped. */
const canGroup = groups?.controllers.includes("memory") === true;

describe("openCgroups", () => {
  test("says where and what it bounds, or what is then not enforced", () => {
    const lack = describeLack(enforcementOf(groups));
    if (groups === null) expect(lack?.lack).toContain("no cgroup");
    else expect(groups.folders.every((folder) => !existsSync(folder))).toBe(true);
  });

  test.if(canGroup)(
    "removes what a killed server left, with its processes, and leaves a living neighbour's",
    async () => {
      const program = join(import.meta.dir, "../programs/group-owner.ts");
      const start = async () => {
        const child = Bun.spawn([process.execPath, program], { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
        const reader = child.stdout.getReader();
        const { value } = await reader.read();
        return { child, ...(JSON.parse(new TextDecoder().decode(value)) as { folders: string[]; pid: number }) };
      };
      const [dead, living] = [await start(), await start()];
      dead.child.kill("SIGKILL");
      await dead.child.exited;
      expect(dead.folders.every((folder) => existsSync(folder))).toBe(true);
      expect(isRunning(dead.pid)).toBe(true);
      await using mine = await openCgroups(options);
      expect(mine).not.toBeNull();
      expect(dead.folders.filter((folder) => existsSync(folder))).toEqual([]);
      expect(await eventually(() => !isRunning(dead.pid))).toBe(true);
      expect(living.folders.filter((folder) => existsSync(join(folder, "box-1")))).toEqual(living.folders);
      expect(isRunning(living.pid)).toBe(true);
      living.child.kill("SIGKILL");
      await living.child.exited;
      await (await openCgroups(options))?.[Symbol.asyncDispose]();
      expect(living.folders.filter((folder) => existsSync(folder))).toEqual([]);
    },
  );
});

/** Whether a group gives way to others; null where the kernel or the controller does not have it. */
function idleOf(folder: string): string | null {
  const file = join(folder, "cpu.idle");
  return existsSync(file) ? readFileSync(file, "utf8").trim() : null;
}

describe.if(canGroup)("a sandbox in control groups", () => {
  const before = residue();
  let own: Cgroups;
  let host: SandboxHost;
  const limits = { ...TEST_LIMITS, memoryBytes: 64 << 20 };

  beforeAll(async () => {
    const opened = await openCgroups(options);
    if (opened === null) throw new Error("groups could be made a moment ago");
    own = opened;
    host = await testSandboxHost({ groups: own });
  });
  afterAll(async () => {
    await host.close();
    expect(own.folders.filter((folder) => existsSync(folder))).toEqual([]);
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("has all its processes in them, sees no path of them, and leaves none when it is closed", async () => {
    const sandbox = await host.open({ image: "host", limits }, never);
    expect((await sandbox.shell("sleep 1000 & cat /proc/self/cgroup", call)).output).not.toContain("rolloutd");
    const boxes = own.folders.flatMap((folder) => readdirSync(folder).filter((name) => name.startsWith("box-")));
    expect(new Set(boxes).size).toBe(1);
    const all = descendantsOf(process.pid).filter((pid) => !before.processes.includes(pid));
    expect(all.length).toBeGreaterThan(4);
    for (const folder of own.folders) {
      const inside = readFileSync(join(folder, boxes[0] ?? "", "cgroup.procs"), "utf8")
        .split("\n")
        .map(Number);
      expect(all.filter((pid) => isRunning(pid) && !inside.includes(pid))).toEqual([]);
    }
    await sandbox.close();
    for (const folder of own.folders) expect(readdirSync(folder).filter((name) => name.startsWith("box-"))).toEqual([]);
  });

  test("is told when its memory is used up by several processes, and lives on", async () => {
    await using sandbox = await host.open({ image: "host", limits }, never);
    await sandbox.shell("KEPT=1", call);
    const hog = `python3 -c 'b = bytearray(90 << 20); import time; time.sleep(1)'`;
    const hogs = await sandbox.shell(`${hog} & ${hog} & ${hog} & wait`, call);
    expect(hogs.note).toContain("memory was used up");
    expect(await sandbox.shell("echo $KEPT", call)).toMatchObject({ output: "1\n", note: null });
    const cell = await sandbox.python("x = bytearray(400 << 20)", call);
    expect(cell.note).toContain("memory was used up");
    expect((await sandbox.python("1 + 1", call)).output).toBe("2\n");
  });

  test("is not killed by a full disk, and has room for a program of its full memory beside it", async () => {
    await using sandbox = await host.open({ image: "host", limits }, never);
    const full = await sandbox.shell("cat /dev/zero > /tmp/full; cat /dev/zero > /dev/shm/full; df / | tail -1", call);
    expect(full).toMatchObject({ note: null, exitCode: 0 });
    expect(full.output).toContain("100%");
    expect((await sandbox.shell("python3 -c 'bytearray(56 << 20)' && echo done", call)).output).toBe("done\n");
  });

  test("may reserve more addresses than memory, as other languages' programs do", async () => {
    await using sandbox = await host.open({ image: "host", limits }, never);
    const reserve = "python3 -c 'import mmap; mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE); print(1)'";
    expect((await sandbox.shell(reserve, call)).output).toBe("1\n");
  });

  test("answers quickly beside sandboxes that take all processors", async () => {
    await using quiet = await host.open({ image: "host", limits }, never);
    const busy = await Promise.all(Array.from({ length: 6 }, () => host.open({ image: "host", limits }, never)));
    const stop = new AbortController();
    const loops = busy.map((each) =>
      each.shell("while :; do :; done", { ...call, signal: stop.signal }).catch(() => {}),
    );
    const idles = () => own.folders.flatMap((folder) => readdirSync(folder).map((box) => idleOf(join(folder, box))));
    expect(await eventually(() => idles().filter((idle) => idle === "1").length >= busy.length)).toBe(true);
    await quiet.shell("true", call);
    expect(idles()).toContain("0");
    stop.abort(new Error("by the test"));
    await Promise.all(loops);
    await Promise.all(busy.map((each) => each.close()));
  });

  test("binds a program too", async () => {
    await using program = await host.start(
      { image: "host", limits, argv: ["python3", "-c", "bytearray(400 << 20)"] },
      never,
    );
    expect(await program.wait(never)).toMatchObject({ exitCode: null, signal: "SIGKILL" });
  });

  test("leaves no group when starts are aborted", async () => {
    const aborted = Array.from({ length: 12 }, async (_, at) => {
      const stop = new AbortController();
      const opened = host.open({ image: "host", limits }, stop.signal).then((each) => each.close());
      await systemClock.sleep(at * 2);
      stop.abort(new Error("by the test"));
      await opened.catch(() => {});
    });
    await Promise.all(aborted);
    for (const folder of own.folders) expect(readdirSync(folder).filter((name) => name.startsWith("box-"))).toEqual([]);
  });
});
