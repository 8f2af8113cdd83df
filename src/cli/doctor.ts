import { bundledBwrapPath } from "../sandbox/bundled-bwrap.ts";
import type { Bwrap } from "../sandbox/find-bwrap.ts";
import { type Finding, inspectMachine, probeConfinement } from "../sandbox/probe.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import { BUILD } from "../version.ts";

export interface DoctorParts {
  /** The bubblewrap that `serve` would use; null when there is none. */
  bwrap: () => Promise<Bwrap | null>;
  dataDir: string;
  sandboxUid: number;
  /** Makes the sandbox host that `serve` would use; rejects when there can be none. */
  host: () => Promise<SandboxHost>;
}

/** `rolloutd doctor`: looks at the machine, then starts one sandbox and looks from inside. Exit code 1 when something lacks. */
export async function runDoctor(parts: DoctorParts, options: { json: boolean }): Promise<number> {
  const bwrap = await parts.bwrap();
  const uid = process.getuid?.() === 0 ? parts.sandboxUid : null;
  const findings = [...(await inspectMachine(bwrap, uid))];
  if (bwrap !== null) findings.push(originOf(bwrap, parts.dataDir), ...(await probe(parts)));
  if (options.json) console.log(JSON.stringify({ ok: findings.every((finding) => finding.ok), findings }, null, 2));
  else print(findings);
  return findings.every((finding) => finding.ok) ? 0 : 1;
}

/** Whose bubblewrap runs: one of this machine goes before the one that a binary carries. */
function originOf(bwrap: Bwrap, dataDir: string): Finding {
  const carried = BUILD?.bwrapVersion ?? null;
  const inside = carried === null ? "this program carries none" : `this program carries ${carried}`;
  const isBundled = bwrap.path === bundledBwrapPath(dataDir);
  const detail = isBundled ? "the one inside this program, unpacked" : `this machine's; ${inside}`;
  return { check: "bubblewrap used", ok: true, detail, fix: null };
}

async function probe(parts: DoctorParts): Promise<Finding[]> {
  const host = await parts.host();
  try {
    return await probeConfinement(host, "host");
  } finally {
    await host.close();
  }
}

function print(findings: readonly Finding[]): void {
  for (const { ok, check, detail, fix } of findings) {
    console.log(`${ok ? "ok     " : "MISSING"}  ${check}: ${detail}`);
    if (fix !== null) console.log(`         -> ${fix}`);
  }
  const missing = findings.filter((finding) => !finding.ok).length;
  console.log(missing === 0 ? "this machine can confine sandboxes" : `${missing} of ${findings.length} checks failed`);
}
