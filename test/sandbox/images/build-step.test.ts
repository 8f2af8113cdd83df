import { describe, expect, test } from "bun:test";
import { chownSync } from "node:fs";
import { type Clock, systemClock } from "../../../src/clock.ts";
import { IMAGE_LIMITS } from "../../../src/limits.ts";
import { type BuildStep, runBuildStep } from "../../../src/sandbox/images/build-step.ts";
import { hostView } from "../../../src/sandbox/images/confine.ts";
import { TEST_SANDBOX_UID, testBwrap } from "../../support/bwrap.ts";
import { aFolder, folderIn, rejection } from "../../support/images.ts";
import { leftSince, NOTHING, residue } from "../../support/leaks.ts";

/** Runs a script as a step of a build, and gives the lines it wrote. */
async function runScript(
  script: string,
  over: Partial<BuildStep> & { signal?: AbortSignal; clock?: Clock } = {},
): Promise<string[]> {
  await using folder = aFolder();
  const work = folderIn(folder.path, "work");
  if (TEST_SANDBOX_UID !== null) chownSync(work, TEST_SANDBOX_UID, TEST_SANDBOX_UID);
  const host = {
    bwrapPath: await testBwrap(),
    sandboxUid: TEST_SANDBOX_UID,
    clock: over.clock ?? systemClock,
    env: {},
  };
  const lines: string[] = [];
  const step = {
    argv: ["/bin/bash", "-c", script],
    view: hostView({ work }),
    env: { GIVEN: "yes" },
    onLine: (line: string) => void lines.push(line),
    ...over,
  };
  await runBuildStep(host, step, over.signal ?? new AbortController().signal);
  return lines;
}

describe("runBuildStep", () => {
  test("shows a program the machine's programs, its own folder and nobody's data", async () => {
    const script = `
      id -u; echo $GIVEN $PATH | cut -d: -f1; env | grep -c ROLLOUTD; ls -A /root /home /mnt /var/lib 2>/dev/null | grep -v :
      cat /etc/shadow 2>/dev/null; cat /proc/1/environ | tr '\\0' '\\n' | grep -c =
      for path in /new /usr/new /etc/new /root/new /run/new /usr/local/new; do touch $path 2>/dev/null && echo wrote $path; done
      touch /tmp/new && echo wrote /tmp; umask; ulimit -u`;
    process.env.ROLLOUTD_SECRET = "secret";
    try {
      expect((await runScript(script)).filter((line) => line.trim() !== "")).toEqual([
        "0",
        "yes /usr/local/sbin",
        "0",
        "1", // PATH of bwrap itself
        "wrote /tmp",
        "0022",
        String(IMAGE_LIMITS.stepProcessesMax),
      ]);
    } finally {
      delete process.env.ROLLOUTD_SECRET;
    }
  });

  test("lets it reach the network only when it is to", async () => {
    using server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("hello") });
    const script = `exec 3<>/dev/tcp/127.0.0.1/${server.port} && echo open`;
    expect(await runScript(`${script} || echo closed`)).toContain("closed");
    expect(await runScript(script, { network: true })).toContain("open");
  });

  test("ends what the program left in the background", async () => {
    const before = residue();
    expect(await runScript("setsid sleep 1000 & (trap '' TERM INT HUP; sleep 1000) & echo begun")).toEqual(["begun"]);
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("fails with the end of the output, bounded in lines and their length", async () => {
    const message = await rejection(
      runScript('for i in {1..5000}; do echo "line $i"; done; head -c 1000000 /dev/zero | tr "\\0" x; echo; exit 7'),
    );
    const lines = message.split("\n");
    expect(lines[0]).toMatch(/^\/bin\/bash -c .* ended with 7:$|ended with 7:$/);
    expect(message).toContain("line 5000");
    expect(message).not.toContain("line 4000");
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(IMAGE_LIMITS.outputLineCharsMax);
  });

  test("bounds memory and the size of a file", async () => {
    expect(await rejection(runScript(`python3 -c "bytearray(${IMAGE_LIMITS.stepMemoryBytes + 1})"`))).toContain(
      "MemoryError",
    );
    const seek = `truncate -s ${IMAGE_LIMITS.fileBytesMax + 1} /tmp/file`;
    expect(await rejection(runScript(seek))).toMatch(/File too large|ended with 153|SIGXFSZ/);
  });

  test("is ended with all its processes when its time is up, or at once when it was aborted before", async () => {
    const before = residue();
    // Hours of this clock are over at once.
    const clock: Clock = {
      nowMs: () => systemClock.nowMs(),
      sleep: (ms, signal) => systemClock.sleep(ms >= IMAGE_LIMITS.stepMs ? 300 : ms, signal),
    };
    expect(await rejection(runScript("sleep 1000 & sleep 1000", { clock }))).toContain("took longer than 60 minutes");
    const signal = AbortSignal.abort(new Error("enough"));
    expect(await rejection(runScript("sleep 1000", { signal }))).toBe("enough");
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("leaves nothing, whenever it is aborted", async () => {
    const before = residue();
    for (let delayMs = 0; delayMs < 40; delayMs += 2) {
      const stop = new AbortController();
      const running = rejection(runScript("sleep 1000 & sleep 1000", { signal: stop.signal }));
      await systemClock.sleep(delayMs);
      stop.abort(new Error("enough"));
      expect(await running).toBe("enough");
    }
    expect(await leftSince(before)).toEqual(NOTHING);
  });
});
