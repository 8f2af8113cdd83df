import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { noticeText } from "../../scripts/build/notice.ts";

describe("NOTICE", () => {
  test("names every package that a binary holds, with its licence; `bun scripts/build/notice.ts` writes it", async () => {
    const written = await Bun.file(join(import.meta.dir, "../../NOTICE")).text();
    expect(written).toBe(await noticeText());
    for (const part of ["LGPL-2.0-or-later", "Source offer", "JavaScriptCore", "  zod ", "  hono "]) {
      expect(written).toContain(part);
    }
  });
});
