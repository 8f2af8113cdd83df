import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testBwrap } from "../support/bwrap.ts";

setDefaultTimeout(60_000);

const PROGRAM = join(import.meta.dir, "../../src/cli.ts");
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "doctor-"));
  mkdirSync(join(folder, "old"));
  // Only its version is ever asked for.
  writeFileSync(join(folder, "old/bwrap"), "#!/bin/sh\necho bubblewrap 0.8.0\n");
  chmodSync(join(folder, "old/bwrap"), 0o755);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the program where no bubblewrap lies. */
async function rolloutd(args: readonly string[], env: Record<string, string> = {}) {
  const child = Bun.spawn([process.execPath, PROGRAM, ...args], {
    env: { PATH: "/usr/bin:/bin", HOME: folder, ROLLOUTD_CACHE: join(folder, "cache"), ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { out, err, code: await child.exited };
}

const SERVE = ["serve", "--port", "0"];
describe("doctor and serve", () => {
  test("say on a machine that lacks nothing that it can confine", async () => {
    const { out, code } = await rolloutd(["doctor", "--json"], { ROLLOUTD_BWRAP: await testBwrap() });
    const report = JSON.parse(out) as { ok: boolean; findings: { check: string; state: string }[] };
    expect([report.ok, code]).toEqual([true, 0]);
    expect(report.findings.filter(({ state }) => state === "broken")).toEqual([]);
    expect(report.findings.length).toBeGreaterThan(15);
  });

  test("name a bubblewrap that is too old and what to do", async () => {
    const env = { ROLLOUTD_BWRAP: join(folder, "old/bwrap") };
    const doctor = await rolloutd(["doctor"], env);
    expect(doctor.code).toBe(1);
    expect(doctor.out).toContain(`${env.ROLLOUTD_BWRAP} is 0.8.0, which is too old`);
    expect(doctor.out).toContain("-> use the rolloutd binary, which carries one");
    const serve = await rolloutd([...SERVE, "--data", join(folder, "data")], env);
    expect(serve.code).not.toBe(0);
    expect(serve.err).toContain(`no bubblewrap >= 0.12.0 was found (${env.ROLLOUTD_BWRAP} is 0.8.0)`);
    expect(serve.err).not.toContain("    at ");
  });

  test("name a bubblewrap that is not there and what to do", async () => {
    const env = { ROLLOUTD_BWRAP: join(folder, "none/bwrap") };
    const doctor = await rolloutd(["doctor"], env);
    expect([doctor.code, doctor.out]).toEqual([1, expect.stringContaining("bubblewrap: there is none")]);
    const serve = await rolloutd([...SERVE, "--data", join(folder, "data")], env);
    expect(serve.err).toContain("`rolloutd doctor` says how to get one");
  });

  test("print an AppArmor profile that names the program that runs", async () => {
    const { out, code } = await rolloutd(["doctor", "--apparmor-profile"]);
    expect(code).toBe(0);
    expect(out).toContain(`profile rolloutd ${process.execPath} flags=(unconfined) {`);
  });
});
