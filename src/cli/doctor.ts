import { findBwrap } from "../sandbox/find-bwrap.ts";
import { type Finding, inspectMachine, probeConfinement } from "../sandbox/probe.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";

export interface DoctorParts {
  /** Paths at which a bubblewrap may be, best first. */
  candidates: readonly string[];
  sandboxUid: number;
  /** Makes the sandbox host that `serve` would use; rejects when there can be none. */
  host: () => Promise<SandboxHost>;
}

/** `rolloutd doctor`: looks at the machine, then starts one sandbox and looks from inside. Exit code 1 when something lacks. */
export async function runDoctor(parts: DoctorParts, options: { json: boolean }): Promise<number> {
  const bwrap = await findBwrap(parts.candidates);
  const uid = process.getuid?.() === 0 ? parts.sandboxUid : null;
  const findings = [...(await inspectMachine(bwrap, uid))];
  if (bwrap !== null) findings.push(...(await probe(parts)));
  if (options.json) console.log(JSON.stringify({ ok: findings.every((finding) => finding.ok), findings }, null, 2));
  else print(findings);
  return findings.every((finding) => finding.ok) ? 0 : 1;
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
