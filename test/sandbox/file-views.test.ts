import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readdirSync } from "node:fs";
import type { FileKind, Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  host = await testSandboxHost();
  sandbox = await host.open({ image: "host", limits: { ...TEST_LIMITS, fileBytes: 20 * 2 ** 30 } }, never);
});
afterAll(() => host.close());

const sh = async (command: string) => (await sandbox.shell(command, { timeoutMs: 20_000, signal: never })).output;

/** What an agent can leave at a path, and what the server says that it is. */
const LEFT: readonly (readonly [string, string, FileKind | null])[] = [
  ["a FIFO", "mkfifo TARGET", "FIFO"],
  ["a socket", "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('TARGET')\"", "socket"],
  ["a symlink to a device", "ln -s /dev/zero TARGET", "device"],
  ["a symlink to the terminal's master", "ln -s /dev/ptmx TARGET", "device"],
  ["a symlink to a file of /proc", "ln -s /proc/1/environ TARGET", "kernel file"],
  ["a magic link", "ln -s /proc/1/root/etc/passwd TARGET", null],
  ["a magic link to a descriptor", "ln -s /proc/1/fd/1 TARGET", null],
  ["a symlink out of the root", "ln -s ../../../../../../../../etc/shadow TARGET", null],
  ["a dangling symlink", "ln -s /nowhere TARGET", null],
  ["a loop of symlinks", "ln -s TARGET TARGET", null],
  ["a folder", "mkdir TARGET", "folder"],
  ["a file that its owner may not read", "touch TARGET; chmod 0 TARGET", "file"],
  ["nothing", "true", null],
];

describe("what an agent left", () => {
  test.each(LEFT)("is not read, listed or waited for when it is %s", async (name, command, kind) => {
    const path = `/tmp/${name.replaceAll(/[^a-z]/g, "-")}`;
    await sh(command.replaceAll("TARGET", path));
    const start = performance.now();
    expect(await sandbox.kindOf(path)).toBe(kind);
    expect(await sandbox.readFile(path, 1_000)).toBeNull();
    expect(await sandbox.readPart(path, { start: 0, bytesMax: 1_000 })).toBeNull();
    expect(await sandbox.listFolder(path, 10)).toEqual(kind === "folder" ? { names: [], more: false } : null);
    expect(performance.now() - start).toBeLessThan(500);
  });

  test("cannot be a device: the agent makes none", async () => {
    expect(await sh("mknod /tmp/device c 1 5 2>&1; mknod /tmp/device b 7 0 2>&1")).toMatch(/(not permitted.*){2}/s);
    expect(await sandbox.kindOf("/tmp/device")).toBeNull();
  });

  test("is not read through a folder that is swapped for a symlink all the time, and never from the host", async () => {
    await sh(
      "mkdir -p /tmp/swap-real/etc; echo inside > /tmp/swap-real/etc/hostname; cd /tmp; (while :; do ln -sfn / swap; rm swap; mv swap-real swap; mv swap swap-real; done) > /dev/null 2>&1 &",
    );
    const seen = new Set<string>();
    for (let i = 0; i < 2_000; i += 1) {
      const bytes = await sandbox.readFile("/tmp/swap/etc/hostname", 1_000);
      const list = await sandbox.listFolder("/tmp/swap/etc", 100);
      if (bytes !== null) seen.add(Buffer.from(bytes).toString());
      // The root's own /etc, as the sandbox sees it, or the real one: both are inside.
      for (const name of list?.names ?? []) expect(name).not.toBe("shadow");
    }
    await sh("kill %1 2> /dev/null");
    expect([...seen].filter((text) => text !== "inside\n" && text !== "sandbox\n")).toEqual([]);
  });

  test("counts by its length when it is a sparse file of 10 GB, and is read in part", async () => {
    await sh("truncate -s 10G /tmp/sparse; printf end >> /tmp/sparse");
    expect(sandbox.readFile("/tmp/sparse", 16 << 20)).rejects.toThrow("holds 10737418243 bytes; at most 16777216");
    const end = await sandbox.readPart("/tmp/sparse", { start: 10 * 2 ** 30, bytesMax: 100 });
    expect(end).toEqual({ bytes: new Uint8Array(Buffer.from("end")), size: 10 * 2 ** 30 + 3 });
    expect(await sandbox.readPart("/tmp/sparse", { start: 20 * 2 ** 30, bytesMax: 100 })).toMatchObject({
      bytes: new Uint8Array(0),
    });
    await sh("rm /tmp/sparse");
  });

  test.each([
    ["4,096 folders", "/a".repeat(4_096)],
    ["4,096 steps back", `/tmp${"/..".repeat(4_096)}/etc/passwd`],
    ["a million characters", `/${"x".repeat(1_000_000)}`],
    ["a zero byte", "/etc/passwd\0.txt"],
    ["no character", ""],
  ])("is nothing at a path of %s", async (_, path) => {
    expect(await sandbox.kindOf(path)).toBeNull();
    expect(await sandbox.readFile(path, 1_000)).toBeNull();
    expect(await sandbox.readPart(path, { start: 0, bytesMax: 10 })).toBeNull();
    expect(await sandbox.listFolder(path, 10)).toBeNull();
    expect(sandbox.removeFile(path, never)).rejects.toThrow("sandbox_limit");
  });

  test("is reached through 2,000 folders made one in the other, where no path leads", async () => {
    const dig =
      "import os\nos.chdir('/tmp')\nfor i in range(2000):\n  os.mkdir('deep-folder'); os.chdir('deep-folder')\nopen('f', 'w').write('x')";
    await sandbox.python(dig, { timeoutMs: 20_000, signal: never });
    expect(await sandbox.readFile(`/tmp${"/deep-folder".repeat(2_000)}/f`, 10)).toBeNull();
    expect(await sandbox.kindOf(`/tmp${"/deep-folder".repeat(300)}`)).toBe("folder");
  });

  test("is listed bounded and sorted, names with strange characters as they are", async () => {
    await sh(
      "mkdir /tmp/list; cd /tmp/list; touch -- b $'new\\nline' '-rf' a; mkdir z; ln -s z link; seq 1 50 | sed 's/^/n/' | xargs touch; cd /",
    );
    const all = await sandbox.listFolder("/tmp/list", 100);
    expect(all?.names.filter((name) => !/^n\d/.test(name))).toEqual(["-rf", "a", "b", "link", "new\nline", "z/"]);
    expect(await sandbox.listFolder("/tmp/list", 3)).toEqual({ names: ["-rf", "a", "b"], more: true });
  });
});

describe("removeSandboxFile", () => {
  test("removes a file, and a symlink itself, and no folder", async () => {
    await sh("cd /tmp; echo x > gone; ln -s /etc/passwd to-passwd; mkdir -p kept; cd /");
    await sandbox.removeFile("/tmp/gone", never);
    await sandbox.removeFile("/tmp/to-passwd", never);
    expect(await sh("ls -d /tmp/gone /tmp/to-passwd 2>&1 | grep -c 'No such'; wc -l < /etc/passwd")).toBe("2\n2\n");
    expect(sandbox.removeFile("/tmp/kept", never)).rejects.toThrow("EISDIR");
    expect(sandbox.removeFile("/usr/bin/env", never)).rejects.toThrow("EROFS");
    expect(sandbox.removeFile("/tmp/gone", never)).rejects.toThrow("ENOENT");
  });
});

test("looking at files leaves no descriptor open", async () => {
  const open = () => readdirSync("/proc/self/fd").length;
  await sandbox.kindOf("/etc/passwd");
  const before = open();
  for (let i = 0; i < 100; i += 1) {
    await sandbox.kindOf("/dev/zero");
    await sandbox.listFolder("/tmp", 10);
    await sandbox.readPart("/etc/passwd", { start: 0, bytesMax: 10 });
    await sandbox.removeFile("/tmp/none", never).catch(() => {});
  }
  expect(open()).toBe(before);
});
