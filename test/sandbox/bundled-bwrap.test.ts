import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { unpackBundledBwrap } from "../../src/sandbox/bundled-bwrap.ts";
import { aFolder } from "../support/store.ts";

describe("unpackBundledBwrap", () => {
  test("gives null from source, which carries none, and makes nothing", async () => {
    using folder = aFolder();
    const dataDir = join(folder.path, "data");
    expect(await unpackBundledBwrap({ dataDir, sandboxUid: null })).toBeNull();
    expect(existsSync(dataDir)).toBe(false);
  });
});
