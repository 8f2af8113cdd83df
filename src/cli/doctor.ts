import apparmorProfile from "../../packaging/apparmor/rolloutd" with { type: "text" };
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import { bundledBwrapPath } from "../sandbox/bundled-bwrap.ts";
import type { Bwrap } from "../sandbox/find-bwrap.ts";
import { type Finding, finding } from "../sandbox/finding.ts";
import { inspectMachine, tooOldOf } from "../sandbox/machine.ts";
import { probeConfinement } from "../sandbox/probe.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import { BUILD } from "../version.ts";

export interface DoctorOptions {
  json: boolean;
  apparmorProfile: boolean;
}

export interface DoctorParts {
  /** The bubblewrap that `serve` would use; null when there is none. */
  bwrap: () => Promise<Bwrap | null>;
  /** Those that were found, new enough or not. */
  seen: () => Promise<readonly Bwrap[]>;
  /** The path that `--bwrap` gives; null when any may be used. */
  named: string | null;
  /** Where the bundled one is unpacked for a try. */
  dataDir: string;
  /** The folder that `serve` would use. */
  dataDirGiven: string;
  sandboxUid: number;
  /** Makes the sandbox host that `serve` would use; rejects when there can be none. */
  host: () => Promise<SandboxHost>;
  clock: Clock;
  log: Log;
}

/** Where the profile in packaging/ expects this program. */
const PROFILE_PATH = "/usr/local/bin/rolloutd";
const MARKS = { ok: "ok     ", lacking: "LACKING", broken: "BROKEN " } as const;

/**
 * `rolloutd doctor`: looks at the machine, then starts one sandbox and looks from inside. Exit code 1 when something is
 * broken; what is only lacking is said, and `serve` starts all the same.
 */
export async function runDoctor(parts: DoctorParts, options: DoctorOptions): Promise<number> {
  if (options.apparmorProfile) {
    console.log(apparmorProfile.replaceAll(PROFILE_PATH, process.execPath).trimEnd());
    return 0;
  }
  const { clock, log, named } = parts;
  const [{ bwrap, findings: choice }, seen] = [await choose(parts), await parts.seen()];
  const sandboxUid = process.getuid?.() === 0 ? parts.sandboxUid : null;
  const findings = await inspectMachine({ bwrap, tooOld: tooOldOf(seen), named, sandboxUid, clock, log });
  findings.push(...choice);
  if (bwrap !== null) findings.push(...(await probe(parts)));
  const holds = findings.every(({ state }) => state !== "broken");
  if (options.json) console.log(JSON.stringify({ ok: holds, findings }, null, 2));
  else print(findings);
  return holds ? 0 : 1;
}

/** The bubblewrap to use, and what is to be said of it. */
async function choose(parts: DoctorParts): Promise<{ bwrap: Bwrap | null; findings: Finding[] }> {
  try {
    const bwrap = await parts.bwrap();
    return { bwrap, findings: bwrap === null ? [] : [originOf(bwrap, parts)] };
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const fault = { consequence: "no server starts", fix: "--data with a folder that the uid of sandboxes may reach" };
    return { bwrap: null, findings: [finding("bubblewrap used", false, why, fault)] };
  }
}

/** Whose bubblewrap runs: one of this machine goes before the one that a binary carries. */
function originOf(bwrap: Bwrap, { dataDir, dataDirGiven }: DoctorParts): Finding {
  const carried = BUILD?.bwrapVersion ?? null;
  const inside = carried === null ? "this program carries none" : `this program carries ${carried}`;
  const isBundled = bwrap.path === bundledBwrapPath(dataDir);
  const own = `the one inside this program, which serve unpacks to ${bundledBwrapPath(dataDirGiven)}`;
  const detail = isBundled ? own : `this machine's; ${inside}`;
  return finding("bubblewrap used", true, detail, { consequence: "", fix: null });
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
  for (const { state, check, detail, consequence, fix } of findings) {
    console.log(`${MARKS[state]}  ${check}: ${detail}`);
    if (consequence !== null) console.log(`         ${consequence}`);
    if (fix !== null) console.log(`         -> ${fix}`);
  }
  const count = (wanted: Finding["state"]) => findings.filter(({ state }) => state === wanted).length;
  const lacks = count("lacking");
  const lacking = lacks === 0 ? "" : `, with ${lacks} ${lacks === 1 ? "thing" : "things"} lacking`;
  console.log(
    count("broken") === 0
      ? `this machine can confine sandboxes${lacking}`
      : `${count("broken")} of ${findings.length} checks failed: no server starts here`,
  );
}
