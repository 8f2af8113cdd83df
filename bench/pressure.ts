import type { Sandbox, SandboxHost } from "../src/sandbox/sandbox.ts";
import { TEST_LIMITS } from "../test/support/sandbox-host.ts";
import { type Measurement, ofTimes, percentile, times } from "./measure.ts";

const CALL = { timeoutMs: 30_000, signal: new AbortController().signal };
const RUNS = 100;
/** Two sandboxes do each of these, all the time. */
const ATTACKS = [
  "bomb() { bomb | bomb & }; bomb; sleep 60",
  `python3 -c 'while True:
    try: x = bytearray(1 << 30)
    except MemoryError: pass'`,
  "while :; do head -c 1G /dev/zero > /tmp/full; rm -f /tmp/full; done",
  "yes",
];

/** Two of each bad neighbour beside one that works: what its commands take, against what they take alone. */
export async function underPressure(host: SandboxHost): Promise<Measurement[]> {
  await using ninth = await host.open({ image: "host", limits: TEST_LIMITS }, CALL.signal);
  const command = () => ninth.shell("/bin/true", CALL);
  const quiet = await times(RUNS, command, 10);
  const ended = new AbortController();
  const bad: Sandbox[] = [];
  for (const attack of [...ATTACKS, ...ATTACKS]) {
    const sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, CALL.signal);
    bad.push(sandbox);
    void sandbox.shell(attack, { timeoutMs: 120_000, signal: ended.signal }).catch(() => {});
  }
  const before = process.memoryUsage.rss();
  const beside = await times(RUNS, command, 10);
  const grown = (process.memoryUsage.rss() - before) / 1e6;
  ended.abort(new Error("the bench is over"));
  await Promise.all(bad.map((sandbox) => sandbox.close()));
  const bound = host.enforcement.cpuShared ? "with cpu groups: ratio > 0.33" : "without cpu groups: answers in tool_ms";
  const peer = { name: "the same alone", median: percentile(quiet, 0.5) };
  return [
    ofTimes("shell command beside 8 that bomb, hog, fill and flood", beside, bound, peer),
    {
      what: "the server's growth meanwhile",
      unit: "MB",
      median: grown,
      p99: null,
      peer: null,
      ratio: null,
      bar: "flat",
    },
  ];
}
