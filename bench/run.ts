/**
 * `bun run bench [PART...]`: measures every part that stands, side by side with its peers, prints a table and writes
 * bench/results/latest.json. Absolute values belong to this machine; the ratios are what counts.
 */
import { cpus, loadavg } from "node:os";
import { formatTable } from "../src/cli/table.ts";
import { VERSION } from "../src/version.ts";
import { benchBinary } from "./binary.ts";
import type { Measurement } from "./measure.ts";
import { benchSandbox } from "./sandbox.ts";
import { benchServer } from "./server.ts";
import { benchTurn } from "./turn.ts";

const PARTS: Readonly<Record<string, () => Promise<Measurement[]>>> = {
  sandbox: benchSandbox,
  turn: benchTurn,
  server: benchServer,
  binary: benchBinary,
};

const asked = process.argv.slice(2);
const unknown = asked.find((name) => !(name in PARTS));
if (unknown !== undefined) {
  console.error(`${unknown} is no part; there is ${Object.keys(PARTS).join(", ")}`);
  process.exit(2);
}
const measurements: Measurement[] = [];
for (const [name, run] of Object.entries(PARTS))
  if (asked.length === 0 || asked.includes(name)) measurements.push(...(await run()));

const round = (value: number | null) => (value === null ? "-" : String(Number(value.toPrecision(3))));
const rows = measurements.map(({ what, unit, median, p99, peer, ratio, bar }) => [
  what,
  `${round(median)} ${unit}`,
  p99 === null ? "-" : `${round(p99)} ${unit}`,
  peer === null ? "-" : `${peer.name}: ${round(peer.median)} ${unit}`,
  round(ratio),
  bar,
]);
console.log(formatTable([["what", "median", "p99", "peer", "ratio", "bar"], ...rows]));
const machine = {
  cpus: cpus().length,
  model: cpus()[0]?.model ?? "",
  load: Number((loadavg()[0] ?? 0).toFixed(2)),
  bun: Bun.version,
};
const report = { version: VERSION, command: "bun run bench", machine, measurements };
await Bun.write(`${import.meta.dir}/results/latest.json`, `${JSON.stringify(report, null, 2)}\n`);
process.exit(0);
