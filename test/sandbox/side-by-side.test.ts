import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chownSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { openCgroups } from "../../src/sandbox/cgroup.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import { TEST_SANDBOX_UID } from "../support/bwrap.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(120_000);

const never = new AbortController().signal;
const before = residue();
afterAll(async () => expect(await leftSince(before)).toEqual(NOTHING));

/** A folder with files, links and folders of their own owner, to be the lower layer of an overlay. */
function aLowerFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "lower-"));
  for (const name of ["data", "data/deep", "etc", "usr", "proc", "dev"]) mkdirSync(join(folder, name));
  for (const name of ["bin", "sbin", "lib", "lib64"]) symlinkSync(`usr/${name}`, join(folder, name));
  for (let i = 0; i < 20; i += 1) writeFileSync(join(folder, `data/deep/file-${i}`), `content ${i}\n`);
  symlinkSync("deep/file-1", join(folder, "data/link"));
  if (TEST_SANDBOX_UID !== null) {
    const paths = ["", ...readdirSync(folder, { recursive: true }).map(String)];
    for (const path of paths)
      Bun.spawnSync(["chown", "-h", `${TEST_SANDBOX_UID}:${TEST_SANDBOX_UID}`, join(folder, path)]);
    chownSync(folder, TEST_SANDBOX_UID, TEST_SANDBOX_UID);
  }
  return folder;
}

/** Names, kinds, modes, owners, times and contents of all that lies below. */
function hashOf(folder: string): string {
  const list = `cd "$0" && find . -printf '%p %y %m %U %G %T@ %C@ %l %s\\n' | sort && find . -type f -exec sha256sum {} + | sort`;
  const { stdout } = Bun.spawnSync(["sh", "-c", list, folder]);
  expect(stdout.length).toBeGreaterThan(1_000);
  return Bun.SHA256.hash(stdout, "hex");
}

describe("an image", () => {
  test("has the same files, to the last attribute, before and after 200 runs that change all of it", async () => {
    const lower = aLowerFolder();
    const image = {
      ...createHostImage({ usrLocal: false }),
      name: "layered",
      lower: [lower],
      mounts: ["--ro-bind", "/usr", "/usr"],
      files: [],
    };
    const host = await testSandboxHost({ images: fixedCatalog([image]) });
    const hash = hashOf(lower);
    const change =
      "cat /data/link && echo changed > /data/deep/file-1 && rm -rf /data/deep && mkdir /data/deep && ln -s / /data/deep/x && mv /etc /etc2 && chmod 777 /data && touch /new && setfattr -n user.x -v y /data 2>/dev/null; ls /data/deep /new | tr '\\n' ' '";
    const seen = new Set<string>();
    const run = async () => {
      for (let at = 0; at < 25; at += 1) {
        await using sandbox = await host.open({ image: "layered", limits: TEST_LIMITS }, never);
        seen.add((await sandbox.shell(change, { timeoutMs: 30_000, signal: never })).output);
      }
    };
    await Promise.all(Array.from({ length: 8 }, run));
    await host.close();
    expect([...seen]).toEqual(["content 1\n/new  /data/deep: x "]);
    expect(hashOf(lower)).toBe(hash);
    rmSync(lower, { recursive: true });
  });
});

describe("eight bad neighbours", () => {
  test.each([true, false])(
    "leave a ninth sandbox its answers and the server its memory (cgroups: %p)",
    async (grouped) => {
      const options = { sandboxUid: TEST_SANDBOX_UID, clock: systemClock, log: silentLog };
      const host = await testSandboxHost({ groups: grouped ? await openCgroups(options) : null });
      const attacks = [
        "bomb() { bomb | bomb & }; bomb; sleep 60",
        "python3 -c 'while True: x = bytearray(900 << 20)'",
        "while :; do head -c 1G /dev/zero > /tmp/full; rm -f /tmp/full; done",
        "yes",
      ];
      const ended = new AbortController();
      const work = [];
      for (const attack of [...attacks, ...attacks]) {
        const sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, never);
        work.push(sandbox.shell(attack, { timeoutMs: 100_000, signal: ended.signal }).catch(() => null));
      }
      const ninth = await host.open({ image: "host", limits: TEST_LIMITS }, never);
      const call = { timeoutMs: 30_000, signal: never };
      Bun.gc(true);
      const rss = process.memoryUsage.rss();
      for (let at = 0; at < 50; at += 1) {
        const { output, exitCode } = await ninth.shell("echo $((6 * 7)) > f && /bin/cat f", call);
        expect([output, exitCode]).toEqual(["42\n", 0]);
      }
      expect((await ninth.python("sum(range(1000))", call)).output).toBe("499500\n");
      Bun.gc(true);
      expect((process.memoryUsage.rss() - rss) / (1 << 20)).toBeLessThan(150);
      ended.abort(new Error("enough"));
      await Promise.all(work);
      await host.close();
      expect(await leftSince(before)).toEqual(NOTHING);
    },
  );
});
