/**
 * Makes the attacks and prints one JSON line for each: `{name, ok, got, ms}`. It is compiled and run once by root and once by
 * an ordinary user. Arguments are names of attacks; none means all.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";
import { type Attack, never, type Place, SMALL } from "./attack.ts";
import { ATTACKS } from "./attacks.ts";

export interface AttackResult {
  name: string;
  ok: boolean;
  got: unknown;
  /** How long it took. */
  ms: number;
}

process.env.SERVER_SECRET = "from-the-server";
const folder = mkdtempSync(join(tmpdir(), "attack-"));
chmodSync(folder, 0o755);
const secret = { folder, path: join(folder, "secret"), text: "SECRET-OF-THE-MACHINE" };
writeFileSync(secret.path, secret.text);

async function attempt(host: Place["host"], attack: Attack): Promise<AttackResult> {
  const opened: Sandbox[] = [];
  const startedMs = performance.now();
  const ms = () => Math.round(performance.now() - startedMs);
  const open: Place["open"] = async (over = {}) => {
    const sandbox = await host.open({ image: "host", limits: SMALL, ...over }, never);
    opened.push(sandbox);
    return sandbox;
  };
  try {
    const got = await attack.run({ host, secret, open });
    return { name: attack.name, ok: Bun.deepEquals(got, attack.contained), got, ms: ms() };
  } catch (error) {
    return {
      name: attack.name,
      ok: false,
      got: error instanceof Error ? (error.stack ?? error.message) : String(error),
      ms: ms(),
    };
  } finally {
    await Promise.all(opened.map((sandbox) => sandbox.close()));
  }
}

const before = residue();
/** Names as an attacker's name server would answer for them. */
const NAMES: Readonly<Record<string, readonly string[]>> = {
  "metadata.test": ["169.254.169.254"],
  "loopback.test": ["127.0.0.1", "::1"],
  "lan.test": ["10.0.0.1", "192.168.0.1", "fd00::1"],
};
const host = await testSandboxHost({ network: { admitted: [], resolve: async (name) => NAMES[name] ?? [] } });
const wanted = new Set(process.argv.slice(2));
for (const attack of ATTACKS) {
  if (wanted.size > 0 && !wanted.has(attack.name)) continue;
  console.log(JSON.stringify(await attempt(host, attack)));
}
await host.close();
const left = await leftSince(before);
console.log(JSON.stringify({ name: "nothing is left", ok: Bun.deepEquals(left, NOTHING), got: left, ms: 0 }));
rmSync(folder, { recursive: true });
process.exit(0);
