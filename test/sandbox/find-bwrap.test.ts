import { describe, expect, test } from "bun:test";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bwrapCandidates, compareVersions, findBwrap } from "../../src/sandbox/find-bwrap.ts";

describe("findBwrap", () => {
  test("passes over what is too old or no bubblewrap, and prefers the newest of the cache", async () => {
    const folder = mkdtempSync(join(tmpdir(), "bwrap-"));
    try {
      const put = (name: string, says: string) => {
        mkdirSync(join(folder, name), { recursive: true });
        writeFileSync(join(folder, name, "bwrap"), `#!/bin/sh\necho '${says}'\n`);
        chmodSync(join(folder, name, "bwrap"), 0o755);
      };
      put("old", "bubblewrap 0.8.0");
      put("other", "busybox");
      put("cache/bubblewrap-0.12.0", "bubblewrap 0.12.0");
      put("cache/bubblewrap-0.13.1", "bubblewrap 0.13.1");
      const path = `${join(folder, "old")}:relative:${join(folder, "other")}`;
      const candidates = bwrapCandidates(path, [join(folder, "cache"), join(folder, "absent")]);
      expect(candidates).toHaveLength(4);
      expect(await findBwrap(candidates)).toEqual({
        path: join(folder, "cache/bubblewrap-0.13.1/bwrap"),
        version: "0.13.1",
      });
      expect(await findBwrap(candidates.slice(0, 2))).toBeNull();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("compareVersions", () => {
  test("compares numbers, not text", () => {
    expect(compareVersions("0.9.0", "0.12.0")).toBeLessThan(0);
    expect(compareVersions("0.12", "0.12.0")).toBe(0);
    expect(compareVersions("1.0", "0.12.9")).toBeGreaterThan(0);
  });
});
