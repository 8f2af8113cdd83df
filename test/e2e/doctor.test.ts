import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
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
async function rolloutd(args: readonly string[], env: Record<string, string> = {}, prefix: readonly string[] = []) {
  const child = Bun.spawn([...prefix, process.execPath, PROGRAM, ...args], {
    env: { PATH: "/usr/bin:/bin", HOME: folder, ROLLOUTD_CACHE: join(folder, "cache"), ...env },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { out, err, code: await child.exited };
}

/** Takes user namespaces from its arguments; the setting binds those below it alone. */
const NO_NAMESPACES = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"';
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
    expect(serve.err).toContain(`ROLLOUTD_BWRAP ${env.ROLLOUTD_BWRAP}: is 0.8.0, which is too old`);
    expect(serve.err).not.toContain("    at ");
  });

  test("name a bubblewrap that is not there and what to do", async () => {
    const path = join(folder, "none/bwrap");
    const doctor = await rolloutd(["doctor", "--bwrap", path]);
    expect([doctor.code, doctor.out]).toEqual([1, expect.stringContaining(`bubblewrap: there is none at ${path}`)]);
    const serve = await rolloutd([...SERVE, "--data", join(folder, "data"), "--bwrap", path]);
    expect(serve.err).toContain(`--bwrap ${path}: there is no such file`);
    expect(serve.err).toContain("`rolloutd doctor` says how to get one");
  });

  test("take settings in the same ways, of which doctor makes no data folder", async () => {
    const config = join(folder, "settings.toml");
    const place = join(folder, "place");
    mkdirSync(place);
    chmodSync(place, 0o755);
    const data = join(place, "unmade/data");
    writeFileSync(config, `bwrap = "${await testBwrap()}"\ndata = "${data}"\n`);
    const { out, code } = await rolloutd(["doctor", "--config", config]);
    expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining("can confine sandboxes") });
    expect(readdirSync(place)).toEqual([]);
    const refused = await rolloutd(["doctor", "--config", config, "--sandbox-uid", "0"]);
    expect(refused.err).toContain("--sandbox-uid");
  });

  test("say where user namespaces are off that this is why, and nothing that does not follow", async () => {
    const args = ["--data", join(folder, "off"), "--bwrap", await testBwrap()];
    const off = [
      "/usr/bin/unshare",
      "--user",
      "--map-current-user",
      "--keep-caps",
      "/bin/sh",
      "-c",
      NO_NAMESPACES,
      "sh",
    ];
    const doctor = await rolloutd(["doctor", "--json", ...args], {}, off);
    const { findings } = JSON.parse(doctor.out) as { findings: { check: string; state: string; fix: string | null }[] };
    expect(doctor.code).toBe(1);
    expect(findings.find(({ check }) => check === "sandbox")).toMatchObject({ state: "broken", fix: null });
    // Root, alone in its namespace, cannot even become the sandboxes' user.
    const overlay = findings.find(({ check }) => check === "overlay");
    expect(overlay?.fix ?? "").not.toContain("modprobe");
    const file = join(folder, "tasks.jsonl");
    writeFileSync(file, JSON.stringify({ id: "t", handler: "math", prompt: "p", answer: "1" }));
    const check = await rolloutd(["task", "check", file, ...args], {}, off);
    expect({ code: check.code, out: check.out }).toEqual({ code: 2, out: "" });
    expect(check.err).toContain("see `rolloutd doctor`");
  });

  test("print an AppArmor profile that names the program that runs", async () => {
    const { out, code } = await rolloutd(["doctor", "--apparmor-profile"]);
    expect(code).toBe(0);
    expect(out).toContain(`profile rolloutd ${process.execPath} flags=(unconfined) {`);
    expect((await rolloutd(["doctor", "--apparmor-profile", "--json"])).err).toContain("cannot be used with");
  });
});
