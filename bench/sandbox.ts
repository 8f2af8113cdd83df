import { testBwrap } from "../test/support/bwrap.ts";
import { TEST_LIMITS, testSandboxHost } from "../test/support/sandbox-host.ts";
import { type Measurement, ofRate, ofTimes, percentile, times } from "./measure.ts";
import { shellPeers } from "./peers/shell-peers.ts";

const OPTIONS = { image: "host", limits: TEST_LIMITS };
const CALL = { timeoutMs: 10_000, signal: new AbortController().signal };
const BARE = [
  "--unshare-all",
  "--ro-bind",
  "/usr",
  "/usr",
  "--symlink",
  "usr/bin",
  "/bin",
  "--symlink",
  "usr/lib",
  "/lib",
];
const BARE_MOUNTS = [
  "--symlink",
  "usr/lib64",
  "/lib64",
  "--proc",
  "/proc",
  "--dev",
  "/dev",
  "--tmpfs",
  "/tmp",
  "/usr/bin/true",
];

/** Start of a sandbox, and calls in a live one. */
export async function benchSandbox(): Promise<Measurement[]> {
  const host = await testSandboxHost();
  try {
    const bwrap = await testBwrap();
    const bare = await times(60, () => Bun.spawn([bwrap, ...BARE, ...BARE_MOUNTS]).exited);
    const started: number[] = [];
    for (let at = 0; at < 60; at += 1) {
      const startMs = performance.now();
      await using sandbox = await host.open(OPTIONS, CALL.signal);
      await sandbox.shell("true", CALL);
      started.push(performance.now() - startMs);
    }
    const startMs = performance.now();
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (let at = 0; at < 10; at += 1) {
          await using sandbox = await host.open(OPTIONS, CALL.signal);
          await sandbox.shell("true", CALL);
        }
      }),
    );
    const rate = 160 / ((performance.now() - startMs) / 1_000);
    await using sandbox = await host.open(OPTIONS, CALL.signal);
    const shell = await times(300, () => sandbox.shell("/bin/true", CALL), 20);
    const python = await times(300, () => sandbox.python("1", CALL), 20);
    const flood = await times(50, () => sandbox.shell("head -c 1000000 /dev/zero", CALL), 5);
    const typed = { kind: "command", text: "true" } as const;
    const terminal = await times(300, () => sandbox.terminal(typed, CALL), 20);
    const peer = { name: "bwrap --unshare-all, /proc, /dev, tmpfs, true", median: percentile(bare, 0.5) };
    const found = [
      ofTimes("sandbox: start to first shell answer", started, "<= 2.5x the peer (ratio >= 0.4)", peer),
      ofRate("sandbox: starts with 16 in flight", rate, ">= 100/s"),
      ofTimes("python call in a live sandbox", python, "<= 0.2 ms"),
      ofTimes("shell command that writes 1 MB", flood, "<= 10 ms"),
      ofTimes("command `true` on a terminal", terminal, "<= 3 ms"),
    ];
    const peers = await shellPeers();
    if (peers.length === 0) found.push(ofTimes("shell command /bin/true in a live sandbox", shell, "<= 1.5 ms"));
    for (const own of peers) {
      found.push(
        ofTimes(
          "shell command /bin/true in a live sandbox",
          shell,
          "<= 1.5 ms; >= 50x SWE-ReX, faster than the others",
          own,
        ),
      );
    }
    return found;
  } finally {
    await host.close();
  }
}
