import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { descendantsOf } from "../src/sandbox/process-tree.ts";
import { buildForTests } from "../test/support/binary.ts";
import { type Measurement, ofTimes, percentile } from "./measure.ts";

const STARTS = 7;
const PORT = 18_906;

/** The compiled program: how soon it answers, and what it costs before a backend is registered. */
export async function benchBinary(): Promise<Measurement[]> {
  const built = await buildForTests();
  if (built.path === null) {
    console.error(`the binary was not measured: ${built.missing}`);
    return [];
  }
  const answered: number[] = [];
  const rss: number[] = [];
  for (let at = 0; at < STARTS; at += 1) {
    const data = mkdtempSync(join(tmpdir(), "rolloutd-bench-"));
    const startMs = performance.now();
    const child = Bun.spawn([built.path, "serve", "--port", String(PORT), "--data", data], {
      stdin: "ignore",
      stdout: "ignore",
      stderr: "ignore",
    });
    while (!(await isThere())) {
      await Bun.sleep(2); // a busy loop would take the core that the server starts on
      if (child.exitCode !== null) throw new Error(`the binary ended with ${child.exitCode}`);
    }
    answered.push(performance.now() - startMs);
    rss.push(Math.max(...descendantsOf(child.pid).map(rssMegabytes)));
    child.kill("SIGTERM");
    await child.exited;
    rmSync(data, { recursive: true, force: true });
  }
  const megabytes = { unit: "MB", p99: null, peer: null, ratio: null } as const;
  return [
    ofTimes("binary: start to /healthz", answered, "<= 120 ms"),
    { what: "binary: resident memory before a backend", median: percentile(rss, 0.5), bar: "<= 60 MB", ...megabytes },
    { what: "binary: size of the file", median: statSync(built.path).size / 1e6, bar: "none", ...megabytes },
  ];
}

async function isThere(): Promise<boolean> {
  try {
    return (await fetch(`http://127.0.0.1:${PORT}/healthz`)).ok;
  } catch {
    return false; // not listening yet
  }
}

function rssMegabytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1] ?? 0) / 1_000;
  } catch {
    return 0; // it ended meanwhile
  }
}
