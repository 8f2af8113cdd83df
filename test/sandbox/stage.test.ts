import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import type { Sandbox, SandboxHost, SandboxLimits } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { anOverlayImage, type LayerFiles, type OverlayImage } from "../support/overlay-image.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const call = { timeoutMs: 20_000, signal: never };

/** Layers that an image builder would not make, but could. */
const LAYERS: readonly LayerFiles[] = [
  { "etc/both": "top", tmp: { link: "/nowhere" }, dev: { link: "/etc" }, "run/of-image": "kept" },
  { "etc/both": "below", "etc/low": "low", workspace: "a file", proc: { link: "loop" }, loop: { link: "proc" } },
];

describe("a sandbox on layers", () => {
  const before = residue();
  let layers: OverlayImage;
  let host: SandboxHost;
  let sandbox: Sandbox;
  const sh = async (command: string) => (await sandbox.shell(command, call)).output;

  beforeAll(async () => {
    layers = anOverlayImage(LAYERS);
    host = await testSandboxHost({ images: fixedCatalog([layers.image]) });
    const files = [{ path: "/etc/of-task", bytes: Buffer.from("task") }];
    sandbox = await host.open({ image: "layers", limits: TEST_LIMITS, files }, never);
  });
  afterAll(async () => {
    await host.close();
    layers[Symbol.dispose]();
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("shows the topmost of two files, and those of each layer", async () => {
    expect(await sh("cat /etc/both /etc/low /run/of-image")).toBe("toplowkept");
  });

  test("has its own folders where the image brings a symlink, a loop or a file", async () => {
    const paths = "/tmp /run /workspace /dev /dev/shm /proc";
    expect(await sh(`for p in ${paths}; do [ -d $p ] && [ ! -L $p ] && echo $p; done; touch /tmp/a /dev/shm/a a`)).toBe(
      `${paths.replaceAll(" ", "\n")}\n`,
    );
    expect(await sh("pwd; echo $$ >/dev/null && [ -r /proc/self/status ] && echo proc")).toBe("/workspace\nproc\n");
  });

  test("runs as the image's user, who owns all files", async () => {
    expect(await sh("id -u; id -g; whoami; echo $HOME; touch $HOME/a /etc/a && echo written")).toBe(
      "1000\n1000\nagent\n/home/agent\nwritten\n",
    );
  });

  test("shows no host path, set-uid programs or devices of the image", async () => {
    const mounts = await sh("cat /proc/mounts /proc/self/mountinfo");
    expect(mounts).not.toContain(layers.lower[0] ?? "nothing");
    expect(mounts).not.toContain("rolloutd-overlay");
    expect(mounts).toMatch(/^overlay \/ overlay rw,nosuid,nodev,/m);
  });

  test("is written and read from outside as from inside", async () => {
    expect(await sh("cat /etc/of-task")).toBe("task");
    await sandbox.writeFile({ path: "/etc/low", bytes: Buffer.from("from outside") }, never);
    expect(await sh("cat /etc/low; rm /etc/both; mkdir /etc/both; echo in >/etc/both/in")).toBe("from outside");
    expect(Buffer.from((await sandbox.readFile("/etc/both/in", 10)) ?? []).toString()).toBe("in\n");
    expect(await sandbox.readFile("/etc/both", 10)).toBeNull();
  });

  test("leaves the image as it was, also for a second sandbox at the same time", async () => {
    await sh("echo changed > /etc/passwd; rm -rf /home");
    await using other = await host.open({ image: "layers", limits: TEST_LIMITS }, never);
    expect((await other.shell("cat /etc/both; ls /home; ls /tmp", call)).output).toBe("topagent\n");
    expect(readFileSync(join(layers.lower[0] ?? "", "etc/both"), "utf8")).toBe("top");
    expect(readdirSync(join(layers.lower[2] ?? "", "home"))).toEqual(["agent"]);
  });

  test("runs Python, or says that the image has none", async () => {
    expect((await sandbox.python("1 + 1", call)).output).toBe("2\n");
  });
});

describe("limits of a sandbox", () => {
  const before = residue();
  let host: SandboxHost;

  beforeAll(async () => {
    host = await testSandboxHost();
  });
  afterAll(async () => {
    await host.close();
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  const outputOf = async (over: Partial<SandboxLimits>, command: string) => {
    await using sandbox = await host.open({ image: "host", limits: { ...TEST_LIMITS, ...over } }, never);
    const { output, exitCode } = await sandbox.shell(command, call);
    return { output, exitCode };
  };

  test("end a write when the disk or its inodes are used up", async () => {
    const disk = await outputOf({ diskBytes: 4 << 20 }, "head -c 8000000 /dev/zero > /tmp/big");
    expect(disk.output).toContain("No space left on device");
    const files = await outputOf({ inodesMax: 1_000 }, "cd /dev/shm; for i in $(seq 2000); do : > $i || break; done");
    expect(files.output).toContain("No space left on device");
  });

  test("bound open files, the length of one file and processor time of a process", async () => {
    const open = "python3 -c 'a=[open(\"/dev/null\") for _ in range(200)]'";
    expect((await outputOf({ openFilesMax: 100 }, open)).output).toContain("Too many open files");
    // 128 and SIGXFSZ, SIGXCPU, SIGKILL
    expect((await outputOf({ fileBytes: 1 << 20 }, "head -c 2000000 /dev/zero > big")).exitCode).toBe(153);
    expect(await outputOf({ cpuMs: 1_000 }, "python3 -c 'while True: pass'")).toMatchObject({ exitCode: 152 });
    const heedless = "python3 -c 'import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass'";
    expect(await outputOf({ cpuMs: 1_000 }, heedless)).toMatchObject({ exitCode: 137 });
  });

  test("keep core dumps, locked memory, message queues and real-time priority from every process", async () => {
    const { output } = await outputOf({}, "bash -c 'ulimit -c; ulimit -l; ulimit -q; ulimit -r; ulimit -e; ulimit -i'");
    expect(output).toBe("0\n0\n0\n0\n0\n1024\n");
  });
});
