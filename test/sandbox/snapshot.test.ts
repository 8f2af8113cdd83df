import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import { childrenOf, signalProcess } from "../../src/sandbox/process-tree.ts";
import type { Sandbox, SandboxHost, SandboxSnapshot } from "../../src/sandbox/sandbox.ts";
import { archiveLayer, Layer } from "../../src/sandbox/snapshot.ts";
import { SnapshotStore } from "../../src/sandbox/snapshot-store.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { eventually, leftSince, NOTHING, residue } from "../support/leaks.ts";
import { anOverlayImage, type OverlayImage } from "../support/overlay-image.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const call = { timeoutMs: 20_000, signal: never };
const before = residue();
let folder: string;
let layers: OverlayImage;
let host: SandboxHost;

beforeAll(async () => {
  folder = mkdtempSync("/var/tmp/rolloutd-snapshots-");
  layers = anOverlayImage([{ "etc/gone": "x", "etc/kept": "kept", "opt/replaced/old": "old" }]);
  const snapshots = new SnapshotStore({ folder, sandboxUid: TEST_SANDBOX_UID, clock: systemClock });
  host = await testSandboxHost({
    snapshots,
    images: fixedCatalog([createHostImage({ usrLocal: false }), layers.image]),
  });
});
afterAll(async () => {
  await host.close();
  layers[Symbol.dispose]();
  rmSync(folder, { recursive: true });
  expect(await leftSince(before)).toEqual(NOTHING);
});

const open = (image: string, restore?: SandboxSnapshot) =>
  host.open({ image, limits: TEST_LIMITS, ...(restore === undefined ? {} : { restore }) }, never);
const outputOf = async (sandbox: Sandbox, command: string) => (await sandbox.shell(command, call)).output;

const FILL = `cd /workspace && echo one > f && ln f hard && ln -s f soft && mkfifo fifo && truncate -s 30M sparse
echo secret > closed && chmod 000 closed && mkdir deep && echo in > deep/in && chmod 000 deep
printf 'x' > "$(printf 'odd \\n\\t\\377 name')" && touch -d '2001-02-03 04:05:06' f
python3 -c 'import os; os.setxattr("f", "user.mark", b"value")'`;
const TELL = `cd /workspace && cat f soft && stat -c '%h %Y' f hard && stat -c '%s %b' sparse && [ -p fifo ] && echo fifo
stat -c '%a %n' closed deep && chmod 700 closed deep && cat closed deep/in && ls | wc -l
python3 -c 'import os; print(os.getxattr("f", "user.mark"), b"odd \\n\\t\\xff name" in os.listdir(b"."))'`;
const TOLD = `one\none\n2 981173106\n2 981173106\n31457280 0\nfifo\n0 closed\n0 deep\nsecret\nin\n9\nb'value' True\n`;

describe("Sandbox.snapshot", () => {
  test.each(["host", "layers"])(
    "brings back every kind of file on the image %s, live and killed alike",
    async (image) => {
      await using sandbox = await open(image);
      await sandbox.shell(FILL, call);
      const live = await sandbox.snapshot(never);
      await sandbox.killProcesses();
      const killed = await sandbox.snapshot(never);
      for (const snapshot of [live, killed]) {
        await using restored = await open(image, snapshot);
        expect(await outputOf(restored, TELL)).toBe(TOLD);
        host.removeSnapshot(snapshot.id);
      }
      expect(readdirSync(folder)).toEqual([]);
    },
  );

  test("brings back what was removed from the image as removed, and a replaced folder as replaced", async () => {
    await using sandbox = await open("layers");
    await sandbox.shell("rm /etc/gone; rm -r /opt/replaced; mkdir /opt/replaced; echo new > /opt/replaced/new", call);
    const snapshot = await sandbox.snapshot(never);
    await using restored = await open("layers", snapshot);
    expect(await outputOf(restored, "ls /etc /opt/replaced; cat /etc/kept")).toBe(
      "/etc:\nkept\npasswd\n\n/opt/replaced:\nnew\nkept",
    );
  });

  test("makes forks that do not see each other, nor the sandbox they come from", async () => {
    await using sandbox = await open("host");
    await sandbox.shell("echo start > story", call);
    const snapshot = await sandbox.snapshot(never);
    await sandbox.shell("echo parent >> story", call);
    const forks = await Promise.all([open("host", snapshot), open("host", snapshot), open("host", snapshot)]);
    const stories = await Promise.all(forks.map((fork, at) => outputOf(fork, `echo fork ${at} >> story; cat story`)));
    expect(stories).toEqual([0, 1, 2].map((at) => `start\nfork ${at}\n`));
    expect(await outputOf(sandbox, "cat story")).toBe("start\nparent\n");
    await Promise.all(forks.map((fork) => fork.close()));
  });

  test("holds the processes still meanwhile, and leaves one alone that the agent had stopped", async () => {
    await using sandbox = await open("host");
    const busy = "while :; do echo line >> /tmp/a; echo line >> /tmp/b; done";
    await sandbox.shell(`KEPT=1; (${busy}) & sleep 1000 & slept=$!; kill -STOP $slept; sleep 0.05`, call);
    const snapshots = await Promise.all(Array.from({ length: 3 }, () => sandbox.snapshot(never)));
    expect(await outputOf(sandbox, "echo $KEPT; cut -d' ' -f3 /proc/$slept/stat")).toBe("1\nT\n");
    const count = Number(await outputOf(sandbox, "wc -l < /tmp/a"));
    expect(count).toBeGreaterThan(0);
    const more = await outputOf(sandbox, `while [ $(wc -l < /tmp/a) -le ${count} ]; do sleep 0.01; done; echo goes on`);
    expect(more).toBe("goes on\n");
    // It stood still, so the second file is never more than a line behind the first.
    await using restored = await open("host", snapshots[0]);
    const lines = (await outputOf(restored, "wc -l < /tmp/a; wc -l < /tmp/b")).trim().split("\n").map(Number);
    expect([0, 1]).toContain((lines[0] ?? 0) - (lines[1] ?? 0));
    expect(new Set(snapshots.map(({ id }) => id)).size).toBe(3);
  });

  test("rejects after close, and when the sandbox was killed from outside", async () => {
    const closed = await open("host");
    await closed.close();
    expect(closed.snapshot(never)).rejects.toThrow("sandbox_lost");
    await using ended = await open("host");
    for (const pid of childrenOf(process.pid)) if (!before.processes.includes(pid)) signalProcess(pid, "SIGKILL");
    expect(await ended.ended).toBe("lost");
    expect(ended.snapshot(never)).rejects.toThrow("sandbox_lost");
  });

  test("leaves nothing when it is aborted", async () => {
    await using sandbox = await open("host");
    await sandbox.shell("head -c 20000000 /dev/urandom > big", call);
    const names = readdirSync(folder).length;
    const stop = new AbortController();
    const taken = sandbox.snapshot(stop.signal);
    stop.abort(new Error("by the test"));
    expect(taken).rejects.toThrow("by the test");
    await taken.catch(() => {});
    expect(readdirSync(folder)).toHaveLength(names);
    expect(await outputOf(sandbox, "echo goes on")).toBe("goes on\n");
  });
});

describe("SandboxOptions.restore", () => {
  test.each(["host", "layers"])("touches nothing of the host through links that an agent left on %s", async (image) => {
    const target = mkdtempSync("/var/tmp/rolloutd-target-");
    chmodSync(target, 0o777);
    mkdirSync(join(target, "shm"));
    await using sandbox = await open(image);
    const links = ["run", "tmp", "etc", "home", "root", "var", "workspace", "opt"];
    const plant = links.map((name) => `mv /${name} /${name}-old; ln -s ${target} /${name}`).join("\n");
    await sandbox.shell(`cd /; ${plant}; ls -la /`, call);
    const snapshot = await sandbox.snapshot(never);
    const files = [{ path: "/run/of-task", bytes: Buffer.from("x") }];
    // Whether it starts is one thing; what the host has afterwards is the other.
    const started = await host
      .open({ image, limits: TEST_LIMITS, restore: snapshot, files }, never)
      .then((restored) => restored.close())
      .catch((error: unknown) => expect(String(error)).toContain("sandbox_lost"));
    expect(started).toBeUndefined();
    expect(readdirSync(target)).toEqual(["shm"]);
    expect(readdirSync(join(target, "shm"))).toEqual([]);
    rmSync(target, { recursive: true });
  });

  test("refuses a snapshot that is cut off, changed, gone, of another image or without a proper name", async () => {
    await using sandbox = await open("host");
    const snapshot = await sandbox.snapshot(never);
    const file = join(folder, `${snapshot.id}.tar`);
    const refused = async (over: Partial<SandboxSnapshot>, why: string) => {
      const live = host.live;
      const opened = open("host", { ...snapshot, ...over });
      expect(opened).rejects.toThrow(why);
      await opened.catch(() => {});
      expect(host.live).toBe(live);
    };
    await refused({ imageId: layers.image.id }, "is of image");
    await refused({ id: "snp_nothing" }, "no snapshot");
    await refused({ id: "../../etc/passwd" }, "no snapshot's id");
    await refused({ sha256: "0".repeat(64) }, "changed or cut off");
    chmodSync(file, 0o600);
    truncateSync(file, snapshot.bytes - 512);
    await refused({}, "changed or cut off");
    host.removeSnapshot(snapshot.id);
    host.removeSnapshot(snapshot.id);
    await refused({}, "no snapshot");
  });

  test("rejects when the layer does not fit into a smaller disk, and leaves nothing", async () => {
    await using sandbox = await open("host");
    await sandbox.shell("head -c 8000000 /dev/urandom > big", call);
    const snapshot = await sandbox.snapshot(never);
    const live = host.live;
    const limits = { ...TEST_LIMITS, diskBytes: 4 << 20 };
    const opened = host.open({ image: "host", limits, restore: snapshot }, never);
    expect(opened).rejects.toThrow("No space left on device");
    await opened.catch(() => {});
    expect(host.live).toBe(live);
  });
});

describe("archiveLayer", () => {
  test("rejects when the archive would be longer than its bound", async () => {
    const own = mkdtempSync("/var/tmp/rolloutd-layer-");
    chmodSync(own, 0o755);
    writeFileSync(join(own, "big"), new Uint8Array(100_000).fill(1));
    const identity = TEST_SANDBOX_UID === null ? {} : { uid: TEST_SANDBOX_UID, gid: TEST_SANDBOX_UID };
    const argv = ["unshare", "--user", "--map-root-user", "sleep", "60"];
    const holder = Bun.spawn(argv, { ...identity, stdio: ["ignore", "ignore", "ignore"] });
    try {
      await eventually(() => statSync(`/proc/${holder.pid}/ns/user`).ino !== statSync("/proc/self/ns/user").ino);
      using layer = Layer.open(holder.pid, own);
      const file = join(own, "..", `${own.slice(9)}.tar`);
      const { openSync, closeSync } = await import("node:fs");
      const fileFd = openSync(file, "w");
      const options = { fileFd, bytesMax: 50_000, sandboxUid: TEST_SANDBOX_UID, signal: never };
      expect(archiveLayer(layer, options)).rejects.toThrow("more than 50000 bytes");
      await archiveLayer(layer, options).catch(() => {});
      closeSync(fileFd);
      expect(statSync(file).size).toBeLessThanOrEqual(50_176);
      rmSync(file);
    } finally {
      holder.kill("SIGKILL");
      await holder.exited;
      rmSync(own, { recursive: true });
    }
  });
});

describe("SnapshotStore", () => {
  test("removes what a dead server left unfinished, and leaves what a living one writes", async () => {
    const own = mkdtempSync("/var/tmp/rolloutd-store-");
    const options = { folder: own, sandboxUid: null, clock: systemClock };
    writeFileSync(join(own, "snp_dead.part"), "half");
    const store = new SnapshotStore(options);
    expect(readdirSync(own)).toEqual([]);
    const writing = Promise.withResolvers<void>();
    const made = store.create("image", () => writing.promise);
    new SnapshotStore(options);
    expect(readdirSync(own)).toHaveLength(1);
    writing.resolve();
    const { id } = await made;
    expect(readdirSync(own)).toEqual([`${id}.tar`]);
    rmSync(own, { recursive: true });
  });
});
