import { afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { childrenOf, descendantsOf, isRunning } from "../../src/sandbox/process-tree.ts";
import { testBwrap } from "../support/bwrap.ts";
import { eventually, leftSince, NOTHING, processesMarked, residue } from "../support/leaks.ts";

setDefaultTimeout(60_000);

const SERVER = join(import.meta.dir, "../programs/storm-server.ts");
const ROUNDS = 3;
/** Moments of the storm at which the kill falls, ms after READY. */
const MOMENTS = [20, 150, 400];

let started: { process: Bun.Subprocess<"ignore", "pipe", "inherit">; mark: string } | null = null;

afterEach(() => {
  started?.process.kill("SIGKILL");
  started = null;
});

async function serve(mode: "storm" | "idle", command: string[] = [process.execPath, SERVER]) {
  const mark = `mark-${Math.random().toString(36).slice(2)}`;
  const child = Bun.spawn([...command, await testBwrap(), mark, mode], { stdio: ["ignore", "pipe", "inherit"] });
  started = { process: child, mark };
  const reader = child.stdout.getReader();
  const first = new TextDecoder().decode((await reader.read()).value);
  return { child, mark, first, rest: async () => readRest(reader) };
}

async function readRest(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += new TextDecoder().decode(value);
  }
}

/** The four processes by their place in the chain. */
function chain(launcher: number): Record<"launcher" | "unshare" | "init" | "server", number> {
  const only = (pid: number) => childrenOf(pid)[0] ?? 0;
  const unshare = only(launcher);
  const init = only(unshare);
  return { launcher, unshare, init, server: only(init) };
}

describe("enterNamespace", () => {
  test("keeps the pid that was started as the outer one, and raises Bun's limit of requests", async () => {
    const { child, first } = await serve("idle");
    expect(first).toBe(`READY ${child.pid} 8192\n`);
    const { server } = chain(child.pid);
    expect(/^NSpid:\s+\d+\s+(\d+)$/m.exec(readFileSync(`/proc/${server}/status`, "latin1"))?.[1]).toBe("2");
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "drains on %s and gives the server's exit code",
    async (signal) => {
      const before = residue();
      const { child, mark, rest } = await serve("storm");
      await systemClock.sleep(100);
      child.kill(signal);
      expect(await child.exited).toBe(0);
      expect(await rest()).toBe("DRAINED\n");
      expect(processesMarked(mark)).toEqual([]);
      expect(await leftSince(before)).toEqual(NOTHING);
    },
  );

  test.each(["launcher", "unshare", "init", "server"] as const)(
    "leaves nothing when the %s is killed while sandboxes start",
    async (victim) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const before = residue();
        const { child, mark } = await serve("storm");
        await systemClock.sleep(MOMENTS[round] ?? 0);
        const all = [child.pid, ...descendantsOf(child.pid)];
        expect(all.length).toBeGreaterThan(4);
        process.kill(chain(child.pid)[victim], "SIGKILL");
        expect(await eventually(() => !all.some(isRunning) && processesMarked(mark).length === 0)).toBe(true);
        await child.exited;
        expect(await leftSince(before)).toEqual(NOTHING);
      }
    },
  );

  test("ends the server when the launcher's pipe closes, even if the chain were cut", async () => {
    const { child } = await serve("idle");
    const { server } = chain(child.pid);
    const target = (fd: number, pid: number) => readFileSync(`/proc/${pid}/fdinfo/${fd}`, "latin1");
    expect(target(8, child.pid)).toContain("flags:\t01");
    expect(target(7, server)).toContain("flags:\t0");
    expect(() => target(8, server)).toThrow();
  });
});
