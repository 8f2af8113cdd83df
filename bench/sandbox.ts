import { systemClock } from "../src/clock.ts";
import { silentLog } from "../src/log.ts";
import { openCgroups } from "../src/sandbox/cgroup.ts";
import { descendantsOf } from "../src/sandbox/process-tree.ts";
import type { Sandbox, SandboxHost } from "../src/sandbox/sandbox.ts";
import { TEST_SANDBOX_UID, testBwrap } from "../test/support/bwrap.ts";
import { TEST_LIMITS, testSandboxHost } from "../test/support/sandbox-host.ts";
import { type Measurement, ofRate, ofTimes, percentile, times } from "./measure.ts";
import { callPeers } from "./peers/call-peers.ts";
import { underPressure } from "./pressure.ts";
import { proportionalBytes } from "./proportional.ts";

const OPTIONS = { image: "host", limits: TEST_LIMITS };
const CALL = { timeoutMs: 30_000, signal: new AbortController().signal };
const BARE =
  "--unshare-all --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp /usr/bin/true";
const LIVE = [0, 100, 500];
const STARTS = 60;

/** Start of a sandbox, calls in a live one, many at once, and bad neighbours; with cgroups where this machine gives them. */
export async function benchSandbox(): Promise<Measurement[]> {
  const own = { sandboxUid: TEST_SANDBOX_UID, clock: systemClock, log: silentLog };
  const host = await testSandboxHost({ groups: await openCgroups(own), sandboxesMax: 1_000 });
  try {
    return [
      ...(await starts(host)),
      ...(await calls(host)),
      ...(await crowds(host)),
      ...(await handOver()),
      ...(await underPressure(host)),
    ];
  } finally {
    await host.close();
  }
}

async function startOne(host: SandboxHost): Promise<void> {
  await using sandbox = await host.open(OPTIONS, CALL.signal);
  await sandbox.shell("true", CALL);
}

/** Starts and the peer's take turns, so that both see the same machine. */
async function starts(host: SandboxHost): Promise<Measurement[]> {
  const bwrap = await testBwrap();
  const [bare, started]: [number[], number[]] = [[], []];
  for (let at = 0; at < STARTS; at += 1) {
    bare.push(...(await times(1, () => Bun.spawn([bwrap, ...BARE.split(" ")]).exited, 0)));
    const startMs = performance.now();
    const sandbox = await host.open(OPTIONS, CALL.signal);
    await sandbox.shell("true", CALL);
    started.push(performance.now() - startMs);
    await sandbox.close();
  }
  const startMs = performance.now();
  const one = async () => {
    for (let at = 0; at < 10; at += 1) await startOne(host);
  };
  await Promise.all(Array.from({ length: 16 }, one));
  const peer = { name: "bwrap --unshare-all, /proc, /dev, tmpfs, true", median: percentile(bare, 0.5) };
  return [
    ofTimes("sandbox: start to first shell answer", started, "<= 2.5x the peer (ratio >= 0.4)", peer),
    ofRate("sandbox: starts with 16 in flight", 160 / ((performance.now() - startMs) / 1_000), ">= 100/s"),
  ];
}

async function calls(host: SandboxHost): Promise<Measurement[]> {
  await using sandbox = await host.open(OPTIONS, CALL.signal);
  const shell = await times(300, () => sandbox.shell("/bin/true", CALL), 20);
  const python = await times(300, () => sandbox.python("1", CALL), 20);
  const output = await times(50, () => sandbox.shell("head -c 1000000 /dev/zero | tr '\\0' x", CALL));
  const peers = await callPeers();
  const shellPeers = peers.filter(({ kind }) => kind === "shell");
  const what = "shell command /bin/true in a live sandbox";
  return [
    ...(shellPeers.length === 0 ? [ofTimes(what, shell, "<= 1.5 ms")] : []),
    ...shellPeers.map((peer) => ofTimes(what, shell, "<= 1.5 ms; >= 50x SWE-ReX, faster than the others", peer)),
    ofTimes(
      "python call in a live sandbox",
      python,
      "<= 0.2 ms, faster than the peer",
      peers.find(({ kind }) => kind === "python") ?? null,
    ),
    ofTimes("1 MB of output", output, "<= 10 ms"),
  ];
}

/** Latencies beside idle sandboxes, and what one of those costs. */
async function crowds(host: SandboxHost): Promise<Measurement[]> {
  const idle: Sandbox[] = [];
  const found: Measurement[] = [];
  const before = await memoryUsed();
  for (const count of LIVE) {
    while (idle.length < count) {
      const more = Array.from({ length: Math.min(16, count - idle.length) }, () => host.open(OPTIONS, CALL.signal));
      const opened = await Promise.all(more);
      await Promise.all(opened.map((sandbox) => sandbox.shell("true", CALL)));
      idle.push(...opened);
    }
    const started = await times(30, () => startOne(host));
    await using sandbox = await host.open(OPTIONS, CALL.signal);
    const command = await times(100, () => sandbox.shell("/bin/true", CALL), 10);
    found.push(ofTimes(`sandbox: start beside ${count} live`, started, "none"));
    found.push(ofTimes(`shell command beside ${count} live`, command, "none"));
  }
  const processes = descendantsOf(process.pid);
  const proportional = (await proportionalBytes(processes)) / idle.length / 1e6;
  const machine = ((await memoryUsed()) - before) / idle.length / 1e6;
  found.push(ofMegabytes("memory of an idle sandbox, its processes (PSS)", proportional, "< 1.5 MB"));
  found.push(ofMegabytes("memory of an idle sandbox, as the machine counts", machine, "none"));
  const startMs = performance.now();
  await Promise.all(idle.map((sandbox) => sandbox.close()));
  found.push(ofTimes("500 sandboxes closed at once", [performance.now() - startMs], "none"));
  return found;
}

async function handOver(): Promise<Measurement[]> {
  const host = await testSandboxHost({ warmMax: 4 });
  try {
    const taken: number[] = [];
    for (let at = 0; at < 60; at += 1) {
      const startMs = performance.now();
      const sandbox = await host.open(OPTIONS, CALL.signal);
      taken.push(performance.now() - startMs);
      await sandbox.shell("true", CALL);
      await sandbox.close();
      for (let waited = 0; waited < 200 && host.warm < 1; waited += 1) await systemClock.sleep(5);
    }
    return [ofTimes("sandbox: handed over by the warm pool", taken.slice(5), "< 2 ms")];
  } finally {
    await host.close();
  }
}

function ofMegabytes(what: string, median: number, bar: string): Measurement {
  return { what, unit: "MB", median, p99: null, peer: null, ratio: null, bar };
}

/** Bytes that the machine does not have free or could free at once. */
async function memoryUsed(): Promise<number> {
  const text = await Bun.file("/proc/meminfo").text();
  const kilobytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1]);
  return (kilobytes("MemTotal") - kilobytes("MemAvailable")) * 1_024;
}
