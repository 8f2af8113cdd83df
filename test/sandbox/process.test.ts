import { describe, expect, test } from "bun:test";
import { closeSync } from "node:fs";
import { startProcess, unnamedFileOf } from "../../src/sandbox/process.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";

const isRoot = process.getuid?.() === 0;

describe("startProcess", () => {
  test.skipIf(!isRoot)("becomes the user without any group of the server (needs root)", async () => {
    // A parent with supplementary groups, as a root shell often has.
    const program = `
      import { startProcess } from ${JSON.stringify(new URL("../../src/sandbox/process.ts", import.meta.url).pathname)};
      await startProcess({ argv: ["/bin/grep", "-E", "^(Uid|Gid|Groups|CapEff):", "/proc/self/status"], env: {}, stdio: [null, 1, 2], uid: ${TEST_SANDBOX_UID} }).exited;`;
    const argv = ["setpriv", "--groups", "4,27", process.execPath, "-e", program];
    const child = Bun.spawn(argv, { stdin: "ignore", stdout: "pipe", stderr: "inherit" });
    const [uid = "", gid = "", groups = "", capabilities = ""] = (await new Response(child.stdout).text()).split("\n");
    expect(uid.split("\t").slice(1)).toEqual(Array(4).fill(String(TEST_SANDBOX_UID)));
    expect(gid.split("\t").slice(1)).toEqual(Array(4).fill(String(TEST_SANDBOX_UID)));
    expect(groups.replace("Groups:", "").trim()).toBe("");
    expect(capabilities).toBe("CapEff:\t0000000000000000");
  });

  test("gives the child the descriptors it is given, and nothing of our environment", async () => {
    const script = unnamedFileOf(new TextEncoder().encode("env; exit 7\n"));
    const child = startProcess({
      argv: ["/bin/sh", "/proc/self/fd/3"],
      env: {},
      stdio: [null, null, null, script],
      uid: null,
    });
    closeSync(script);
    expect(await child.exited).toEqual({ exitCode: 7, signal: null });
  });
});
