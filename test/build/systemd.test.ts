import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { aFolder } from "../support/store.ts";

const UNIT = readFileSync(join(import.meta.dir, "../../packaging/rolloutd.service"), "utf8");
const ANALYZE = "/usr/bin/systemd-analyze";

/** Each would keep a sandbox from making its namespaces, mounting its own /proc, or would reach into it. */
const BREAKING = [
  "RestrictNamespaces",
  "PrivateUsers",
  "ProtectKernelTunables",
  "ProtectKernelLogs",
  "ProtectControlGroups",
  "ProtectProc",
  "ProcSubset",
  "ProtectHostname",
  "SystemCallFilter",
  "MemoryDenyWriteExecute",
  "DynamicUser",
  "UMask",
];

describe("rolloutd.service", () => {
  test("signals the launcher alone, delegates cgroups, and hardens nothing that sandboxes are made with", () => {
    for (const line of ["KillMode=mixed", "Delegate=yes", "StateDirectory=rolloutd", "NoNewPrivileges=yes"]) {
      expect(UNIT.split("\n")).toContain(line);
    }
    const set = UNIT.split("\n").flatMap((line) => /^(\w+)=/.exec(line)?.[1] ?? []);
    expect(set.filter((name) => BREAKING.includes(name))).toEqual([]);
  });

  test.skipIf(!existsSync(ANALYZE))("is a unit that systemd accepts without a warning", async () => {
    using folder = aFolder();
    const program = join(folder.path, "rolloutd");
    writeFileSync(program, "#!/bin/sh\n");
    chmodSync(program, 0o755);
    const unit = join(folder.path, "rolloutd.service");
    writeFileSync(unit, UNIT.replace("/usr/local/bin/rolloutd", program).replace("User=rolloutd\n", ""));
    const child = Bun.spawn([ANALYZE, "verify", unit], { stdin: "ignore", stdout: "ignore", stderr: "pipe" });
    const said = await new Response(child.stderr).text();
    expect({ code: await child.exited, about: said.split("\n").filter((line) => line.includes("rolloutd")) }).toEqual({
      code: 0,
      about: [],
    });
  });
});
