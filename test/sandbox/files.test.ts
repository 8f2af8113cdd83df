import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const bytes = Buffer.from("x");
let host: SandboxHost;
let sandbox: Sandbox;

beforeAll(async () => {
  host = await testSandboxHost();
  sandbox = await host.open({ image: "host", limits: TEST_LIMITS, cwd: "/made//on/start/" }, never);
});
afterAll(() => host.close());

describe("writeSandboxFile", () => {
  test.each(["/a//b/c", "//x//y//z", "/tmp/./d/e", "/q/../r/s", `/${"a".repeat(255)}`, `/${"a/".repeat(1_000)}f`])(
    "makes the folders of %p and what is read there again",
    async (path) => {
      await sandbox.writeFile({ path, bytes }, never);
      expect(await sandbox.readFile(path, 10)).toEqual(new Uint8Array(bytes));
    },
  );

  test.each([
    ["/tmp/nul\0byte", "EINVAL"],
    ["/tmp\0/file", "EINVAL"],
    [`/${"a".repeat(256)}`, "ENAMETOOLONG"],
    [`/${"a/".repeat(100_000)}f`, "ENAMETOOLONG"],
    [`${"/".repeat(1_000_000)}f`, "ENAMETOOLONG"],
    ["/tmp/folder/", "EISDIR"],
    ["/", "EISDIR"],
    ["", "ENOENT"],
    ["/proc/1/mem", "EACCES"],
    ["/proc/self/fd/0", "ENOENT"],
    ["/dev/null", "EACCES"],
    ["/usr/new", "EROFS"],
  ])("refuses %.20p with %s and says so in few words", async (path, errno) => {
    const error = await sandbox.writeFile({ path, bytes }, never).then(String, String);
    expect(error).toContain("sandbox_limit");
    expect(error).toContain(errno);
    expect(await sandbox.readFile(path, 10)).toBeNull();
  });

  test.each([
    ["a dangling symlink", "ln -s /nowhere/at/all TARGET", "ENOENT"],
    ["a loop of symlinks", "ln -s TARGET TARGET", "ELOOP"],
    ["a FIFO that nobody reads", "mkfifo TARGET", "ENXIO"],
    ["a FIFO that somebody reads", "mkfifo TARGET; (sleep 100 < TARGET &); exec 3> TARGET", "EACCES"],
    ["a magic link", "ln -s /proc/1/fd/1 TARGET", "ELOOP"],
    ["a closed file", "touch TARGET; chmod 0 TARGET", "EACCES"],
  ])("refuses %s", async (name, command, errno) => {
    const path = `/tmp/${name.replaceAll(" ", "-")}`;
    await sandbox.shell(command.replaceAll("TARGET", path), { timeoutMs: 5_000, signal: never });
    expect(sandbox.writeFile({ path, bytes }, never)).rejects.toThrow(errno);
    expect(await sandbox.readFile(path, 10)).toBeNull();
  });

  test("makes no folder outside while the agent swaps a folder for a symlink", async () => {
    const swap = "cd /tmp; mkdir -p real; while :; do ln -sfn / swap; rm swap; mkdir -p swap; rmdir swap; done &";
    await sandbox.shell(swap, { timeoutMs: 5_000, signal: never });
    for (let i = 0; i < 500; i += 1) {
      await sandbox.writeFile({ path: `/tmp/swap/outside-${i}/f`, bytes }, never).catch(() => {});
      await sandbox.readFile("/tmp/swap/etc/shadow", 1_000).then((read) => expect(read).toBeNull());
    }
    expect(Array.from(new Bun.Glob("outside-*").scanSync({ cwd: "/", onlyFiles: false }))).toEqual([]);
  });

  test("leaves no thread of the server acting as the sandbox's user", async () => {
    const program = join(import.meta.dir, "../programs/file-user.ts");
    const child = Bun.spawn([process.execPath, program], { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
    expect(await new Response(child.stdout).text()).toBe("");
    expect(await child.exited).toBe(0);
  });
});
