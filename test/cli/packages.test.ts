import { describe, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ROOT = join(import.meta.dir, "../..");

describe("cli.ts", () => {
  test("says which command installs the packages when the clone has none", () => {
    const clone = mkdtempSync(join(tmpdir(), "rolloutd-clone-"));
    try {
      for (const name of ["src", "package.json"]) cpSync(join(ROOT, name), join(clone, name), { recursive: true });
      const { exitCode, stderr } = Bun.spawnSync([process.execPath, join(clone, "src/cli.ts"), "status"]);
      expect(stderr.toString()).toContain(`(cd ${clone} && bun install --frozen-lockfile)`);
      expect(exitCode).toBe(2);
    } finally {
      rmSync(clone, { recursive: true, force: true });
    }
  });
});
