import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { probeConfinement } from "../../src/sandbox/probe.ts";
import { descendantsOf } from "../../src/sandbox/process-tree.ts";
import type { Sandbox, SandboxHost } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const options = { image: "host", limits: TEST_LIMITS };
const before = residue();
let host: SandboxHost;
let secretDir: string;

beforeAll(async () => {
  process.env.SERVER_SECRET = "from-the-server";
  host = await testSandboxHost();
  secretDir = mkdtempSync(join(tmpdir(), "attack-"));
  chmodSync(secretDir, 0o755);
  writeFileSync(join(secretDir, "secret"), "HOST-SECRET");
});
afterAll(async () => {
  delete process.env.SERVER_SECRET;
  rmSync(secretDir, { recursive: true });
  await host.close();
  expect(await leftSince(before)).toEqual(NOTHING);
});

function run(sandbox: Sandbox, command: string, timeoutMs = 10_000): Promise<string> {
  return sandbox.shell(command, { timeoutMs, signal: never }).then((result) => result.output);
}

describe("confinement", () => {
  test("passes the probe that serve makes", async () => {
    const findings = await probeConfinement(host, "host");
    expect(findings.filter(({ state }) => state !== "ok")).toEqual([]);
    expect(findings.length).toBeGreaterThan(9);
  });

  test("is reported as broken when the sandbox does not start", async () => {
    const findings = await probeConfinement(host, "missing");
    expect(findings).toMatchObject([{ check: "sandbox", state: "broken" }]);
  });

  test("runs no process as kernel uid 0, seen from outside", async () => {
    await using sandbox = await host.open(options, never);
    await run(sandbox, "setsid sleep 1000 & true");
    const uids = descendantsOf(process.pid).map((pid) => readFileSync(`/proc/${pid}/status`, "latin1"));
    expect(uids.length).toBeGreaterThan(3);
    for (const status of uids) expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).not.toBe("0");
  });

  test("shows nothing of the server: environment, command lines, processes, descriptors, files", async () => {
    await using sandbox = await host.open(options, never);
    const seen = await run(
      sandbox,
      "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n'; ls -l /proc/[0-9]*/fd; cat /proc/mounts; ls -lR /home /root /var /run /tmp",
    );
    expect(seen).not.toContain("from-the-server");
    expect(seen).not.toContain(secretDir);
    expect(seen).not.toContain(process.cwd());
    const fds = await run(sandbox, "ls /proc/self/fd | tr '\\n' ' '");
    expect(fds).toBe("0 1 2 3 "); // 3 is ls's own view of the folder
    expect(
      await run(sandbox, `ls ${secretDir} /etc/shadow /etc/machine-id /var/lib/dpkg 2>&1 | grep -vc 'No such'`),
    ).toBe("0\n");
    expect(Number(await run(sandbox, "ls -d /proc/[0-9]* | wc -l"))).toBeLessThan(10);
  });

  test("has no network: no route, no name, no abstract socket or port of the host", async () => {
    using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("reached") });
    await using sandbox = await host.open(options, never);
    const script = `
import socket
for address in [("127.0.0.1", ${server.port}), ("169.254.169.254", 80), ("1.1.1.1", 53)]:
    try: socket.create_connection(address, 2); print("reached", address)
    except OSError: print("refused")
try: socket.getaddrinfo("example.com", 80); print("resolved")
except OSError: print("refused")`;
    const { output } = await sandbox.python(script, { timeoutMs: 10_000, signal: never });
    expect(output).toBe("refused\n".repeat(4));
  });

  test.each([
    ["a new user namespace", "unshare -Ur true"],
    ["a mount", "mount -t tmpfs none /tmp"],
    ["a device", "mknod /tmp/device b 8 0"],
    ["a write to a kernel setting", "echo x > /proc/sys/kernel/core_pattern"],
    ["a write below /usr", "touch /usr/bin/new"],
    ["a write to /dev", "touch /dev/new"],
    ["another uid", "setpriv --reuid=1000 true"],
    ["a new root", "chroot / true"],
  ])("refuses %s", async (_, command) => {
    await using sandbox = await host.open(options, never);
    expect(await run(sandbox, `{ ${command}; } 2>/dev/null && echo done || echo refused`)).toBe("refused\n");
  });

  test.each([
    ["ptrace", 101, 1],
    ["keyctl", 250, 1],
    ["bpf", 321, 1],
    ["userfaultfd", 323, 1],
    ["io_uring_setup", 425, 38],
    ["clone3", 435, 38],
    ["a call newer than the filter", 600, 38],
  ])("answers %s with an error of the filter", async (_, number, errno) => {
    if (process.arch !== "x64") return; // the numbers are those of x64
    await using sandbox = await host.open(options, never);
    const code = `import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.syscall(${number}, 0, 0, 0, 0, 0)\nctypes.get_errno()`;
    expect((await sandbox.python(code, { timeoutMs: 10_000, signal: never })).output).toBe(`${errno}\n`);
  });

  test("refuses socket families and clone flags by their arguments", async () => {
    await using sandbox = await host.open(options, never);
    const code = `
import ctypes, socket
def family(*args):
    try: socket.socket(*args); return "open"
    except OSError as error: return error.errno
print(family(socket.AF_UNIX), family(socket.AF_INET), family(38), family(socket.AF_VSOCK), family(socket.AF_NETLINK, socket.SOCK_RAW, 0), family(socket.AF_NETLINK, socket.SOCK_RAW, 9))
libc = ctypes.CDLL(None, use_errno=True)
print([(libc.personality(p), ctypes.get_errno())[0] >= 0 for p in (0xffffffff, 0x0040000)])`;
    expect((await sandbox.python(code, { timeoutMs: 10_000, signal: never })).output).toBe(
      "open open 97 97 open 97\n[True, False]\n",
    );
  });
});

describe("reads from outside", () => {
  test.each([
    ["an absolute symlink", "ln -s SECRET out"],
    ["a relative symlink", "ln -s ../../../../../../..SECRET out"],
    ["a symlinked folder", "ln -s SECRETDIR link; ln -s link/secret out"],
    ["a magic link", "ln -s /proc/1/root/SECRET out"],
    ["a device", "ln -s /dev/zero out"],
    ["a FIFO", "mkfifo out"],
    ["a proc file", "ln -s /proc/1/environ out"],
    ["a loop", "ln -s out out"],
  ])("give nothing of the host through %s", async (_, command) => {
    await using sandbox = await host.open(options, never);
    await run(sandbox, command.replaceAll("SECRETDIR", secretDir).replaceAll("SECRET", `${secretDir}/secret`));
    expect(await sandbox.readFile("/workspace/out", 1_000_000)).toBeNull();
    expect(await sandbox.readFile(`/workspace/../../../..${secretDir}/secret`, 1_000)).toBeNull();
  });

  test("write inside only, whatever symlinks the agent planted", async () => {
    await using sandbox = await host.open(options, never);
    await run(sandbox, `ln -s ${secretDir} escape; ln -s ${secretDir}/secret file`);
    const file = (path: string) => ({ path, bytes: Buffer.from("changed") });
    await sandbox.writeFile(file("/workspace/escape/secret"), never).catch(() => {});
    await sandbox.writeFile(file("/workspace/file"), never).catch(() => {});
    expect(readFileSync(join(secretDir, "secret"), "utf8")).toBe("HOST-SECRET");
  });
});

describe("exhaustion", () => {
  async function withNeighbour(attack: (sandbox: Sandbox) => Promise<void>): Promise<void> {
    await using neighbour = await host.open(options, never);
    await using sandbox = await host.open(options, never);
    await attack(sandbox);
    expect(await run(neighbour, "echo undisturbed; /bin/true && echo 1 > f && cat f")).toBe("undisturbed\n1\n");
  }

  test("of processes by a fork bomb ends with the sandbox", async () => {
    const now = residue();
    await withNeighbour(async (sandbox) => {
      await run(sandbox, "bomb() { bomb | bomb & }; bomb; sleep 0.3", 2_000).catch(() => "");
    });
    expect(await leftSince(now)).toEqual(NOTHING);
  });

  test("of the disk by 10 GB stops at the sandbox's own size", async () => {
    await withNeighbour(async (sandbox) => {
      const said = await run(
        sandbox,
        "head -c 10G /dev/zero > /tmp/big; echo; stat -c %s /tmp/big; head -c 1G /dev/zero > /dev/shm/big",
      );
      expect(Number(/^(\d+)$/m.exec(said)?.[1])).toBeLessThanOrEqual(TEST_LIMITS.diskBytes);
      expect(said).toContain("No space left on device");
    });
  });

  test("of inodes stops at the bound, in /tmp and in /dev/shm", async () => {
    await withNeighbour(async (sandbox) => {
      const code = `
import os
def fill(folder, most):
    for i in range(most):
        try: os.mkdir(f"{folder}/{i}")
        except OSError as error: return i, error.errno
    return most, 0
print(fill("/tmp", 150000)[1], fill("/dev/shm", 1000))`;
      expect((await sandbox.python(code, { timeoutMs: 20_000, signal: never })).output).toBe("28 (0, 28)\n");
    });
  });

  test("of memory stops at the limit of a process", async () => {
    await withNeighbour(async (sandbox) => {
      const result = await sandbox.python("x = bytearray(4 << 30)", { timeoutMs: 10_000, signal: never });
      expect(result.output).toContain("MemoryError");
    });
  });

  test("of the server's memory by 1 GB of output does not happen", async () => {
    await withNeighbour(async (sandbox) => {
      Bun.gc(true);
      const rss = process.memoryUsage.rss();
      const result = await sandbox.shell("head -c 1G /dev/zero | tr '\\0' x", { timeoutMs: 25_000, signal: never });
      expect(result).toMatchObject({ outputBytes: 1 << 30, truncated: true, exitCode: 0 });
      expect(process.memoryUsage.rss() - rss).toBeLessThan(200 * 1024 * 1024);
    });
  });

  test("of the server's memory by output that nobody reads does not happen", async () => {
    await withNeighbour(async (sandbox) => {
      await run(sandbox, "yes > /proc/$$/fd/1 & sleep 0.1");
      const rss = process.memoryUsage.rss();
      await sandbox.python("import time; time.sleep(0.5)", { timeoutMs: 5_000, signal: never });
      expect(process.memoryUsage.rss() - rss).toBeLessThan(50 * 1024 * 1024);
      expect(await run(sandbox, "kill %1; wait %1 2>/dev/null; echo alive")).toEndWith("alive\n");
    });
  });

  test.each([
    ["lines", "yes up"],
    ["bytes without a line", "cat /dev/zero"],
  ])("of the server's time by %s written to PID 1's own pipe ends the sandbox", async (_, command) => {
    await withNeighbour(async (sandbox) => {
      const flooded = sandbox.shell(`${command} > /proc/1/fd/1`, { timeoutMs: 10_000, signal: never });
      expect(flooded).rejects.toThrow("sandbox_limit");
      expect(await sandbox.ended).toBe("limit");
    });
  });

  test("of the server's time by false news of PID 1 does not happen", async () => {
    await withNeighbour(async (sandbox) => {
      await run(sandbox, "for i in {1..15000}; do echo up; done > /proc/1/fd/1");
      const before = process.cpuUsage();
      await systemClock.sleep(300);
      const { user, system } = process.cpuUsage(before);
      expect((user + system) / 1_000).toBeLessThan(100);
      expect(await run(sandbox, "echo alive")).toBe("alive\n");
    });
  });

  test("of memory that no limit counts is refused: memfd and large segments of System V", async () => {
    if (process.arch !== "x64") return; // the numbers are those of x64
    await withNeighbour(async (sandbox) => {
      const code = `
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(*args):
    ctypes.set_errno(0)
    return libc.syscall(*(ctypes.c_long(arg) for arg in args)) >= 0, ctypes.get_errno()
[call(319, 0, 0)[1], call(29, 0, 56, 0o1600), call(29, 0, 65537, 0o1600), call(29, 0, 1 << 32, 0o1600)]`;
      expect((await sandbox.python(code, { timeoutMs: 10_000, signal: never })).output).toBe(
        "[38, (True, 0), (False, 12), (False, 12)]\n",
      );
    });
  });

  test("by daemons that ignore every signal ends with the sandbox", async () => {
    const now = residue();
    const sandbox = await host.open(options, never);
    await run(sandbox, "for i in 1 2 3; do (trap '' INT TERM HUP QUIT; setsid sleep 1000 &) & done; sleep 0.1");
    await sandbox.close();
    expect(await leftSince(now)).toEqual(NOTHING);
  });
});
