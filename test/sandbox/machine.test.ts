import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { findPrograms, inspectMachine, tooOldOf } from "../../src/sandbox/machine.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";

const parts = { named: null, sandboxUid: TEST_SANDBOX_UID, clock: systemClock, log: silentLog };

describe("findPrograms", () => {
  test("names what is missing and the packages that bring it, each once", () => {
    expect(findPrograms({ "/nowhere/a": "some-package", "/nowhere/b": "some-package", "/bin/sh": "dash" })).toEqual({
      check: "programs",
      state: "broken",
      detail: "/nowhere/a, /nowhere/b missing",
      consequence: "sandboxes do not start, or graders cannot run",
      fix: "apt-get install some-package",
    });
  });
});

describe("inspectMachine", () => {
  test("says of a machine without bubblewrap what follows and what mends it", async () => {
    const findings = await inspectMachine({ ...parts, bwrap: null, tooOld: [] });
    const bwrap = findings.find(({ check }) => check === "bubblewrap");
    expect(bwrap).toMatchObject({ state: "broken", detail: "there is none" });
    expect(bwrap?.fix).toContain("scripts/setup/bubblewrap.ts");
  });

  test("names a bubblewrap that is too old, and why that matters", async () => {
    const tooOld = [{ path: "/usr/bin/bwrap", version: "0.8.0" }];
    const [bwrap] = await inspectMachine({ ...parts, bwrap: null, tooOld });
    expect(bwrap?.detail).toBe("/usr/bin/bwrap is 0.8.0, which is too old");
    expect(bwrap?.consequence).toContain("CVE-2026-87766");
  });

  test("gives each finding its state, and a consequence and a fix to those that do not hold alone", async () => {
    const findings = await inspectMachine({ ...parts, bwrap: null, tooOld: [] });
    expect(findings.map(({ check }) => check)).toEqual(
      expect.arrayContaining(["bubblewrap", "user namespaces", "AppArmor", "overlay", "cgroups", "programs", "uidmap"]),
    );
    for (const { state, consequence, fix } of findings) {
      expect(consequence === null).toBe(state === "ok");
      expect(fix === null).toBe(state === "ok");
    }
  });
});

describe("tooOldOf", () => {
  test("compares versions as numbers", () => {
    const found = ["0.8.0", "0.11.2", "0.12.0", "0.13.1", "1.0"].map((version) => ({ path: "/b", version }));
    expect(tooOldOf(found).map(({ version }) => version)).toEqual(["0.8.0", "0.11.2"]);
  });
});
