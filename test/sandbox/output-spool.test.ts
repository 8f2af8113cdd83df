import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { BoundedOutput } from "../../src/sandbox/bounded-output.ts";
import { OutputSpool } from "../../src/sandbox/output-spool.ts";

const descriptors = () => readdirSync("/proc/self/fd").length;
const bytes = (count: number) => Uint8Array.from({ length: count }, (_, i) => i % 251);

describe("OutputSpool", () => {
  test("gives back the first bytes, in whatever pieces they came, and its descriptor", () => {
    const before = descriptors();
    {
      using spool = new OutputSpool(1_000);
      for (let at = 0; at < 2_000; at += 7) spool.push(bytes(2_007).subarray(at, at + 7));
      expect(spool.read()).toEqual(bytes(1_000));
    }
    expect(descriptors()).toBe(before);
  });

  test("is a file without a name, on disk where there is a folder for it", async () => {
    for (const [folder, kind] of [
      ["/tmp", /^\/tmp\/#\d+ \(deleted\)$/],
      ["/proc", /^\/memfd:/],
    ] as const) {
      const program = `
        import { readdirSync, readlinkSync } from "node:fs";
        import { OutputSpool } from ${JSON.stringify(join(import.meta.dir, "../../src/sandbox/output-spool.ts"))};
        const open = () => readdirSync("/proc/self/fd").flatMap((fd) => { try { return [readlinkSync("/proc/self/fd/" + fd)]; } catch { return []; } });
        const before = open();
        const spool = new OutputSpool(10);
        spool.push(Uint8Array.of(1, 2, 3));
        console.log(JSON.stringify([open().filter((each) => !before.includes(each)), [...spool.read()]]));`;
      const child = Bun.spawn([process.execPath, "-e", program], {
        env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "/", TMPDIR: folder },
        stdio: ["ignore", "pipe", "inherit"],
      });
      const [links, read] = JSON.parse(await new Response(child.stdout).text()) as [string[], number[]];
      expect(links.filter((link) => kind.test(link))).toHaveLength(1);
      expect(read).toEqual([1, 2, 3]);
    }
  });
});

describe("BoundedOutput.whole", () => {
  test.each([1, 7, 64, 1_000])("gives the first bytes of what comes in pieces of %d", (size) => {
    const all = bytes(5_000);
    for (const count of [0, 15, 16, 17, 300, 5_000]) {
      using output = new BoundedOutput({ headBytesMax: 10, tailBytesMax: 6, spoolBytesMax: 300 });
      for (let at = 0; at < count; at += size) output.push(all.subarray(at, Math.min(count, at + size)));
      expect(new Uint8Array(output.whole())).toEqual(all.subarray(0, Math.min(count, 300)));
    }
  });
});
