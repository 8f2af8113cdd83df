import { afterAll, afterEach, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { childrenOf, descendantsOf, isRunning } from "../../src/sandbox/process-tree.ts";
import { testBwrap } from "../support/bwrap.ts";
import { eventually, leftSince, NOTHING, processesMarked, residue } from "../support/leaks.ts";

setDefaultTimeout(600_000);

const SERVER = join(import.meta.dir, "../programs/storm-server.ts");
const LAUNCHER = join(import.meta.dir, "../../src/launcher.ts");
const PID_1 = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
/** Kills of each process; more of them by hand: `ROLLOUTD_TEST_STORMS=20`. */
const ROUNDS = Number(process.env.ROLLOUTD_TEST_STORMS ?? 3);
/** When the kill of a round falls, ms after READY: spread over the storm. */
const momentMs = (round: number) => 20 + ((round * 130) % 400);

let started: { process: Bun.Subprocess<"ignore", "pipe", "inherit">; mark: string } | null = null;
const snapshots = mkdtempSync(join(tmpdir(), "storm-"));

afterEach(() => {
  started?.process.kill("SIGKILL");
  started = null;
});
afterAll(async () => {
  await restart();
  rmSync(snapshots, { recursive: true });
});

async function serve(mode: "storm" | "idle", command: string[] = [process.execPath, SERVER]) {
  const mark = `mark-${Math.random().toString(36).slice(2)}`;
  const args = [await testBwrap(), mark, mode, snapshots];
  const child = Bun.spawn([...command, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  started = { process: child, mark };
  const reader = child.stdout.getReader();
  const first = new TextDecoder().decode((await reader.read()).value);
  return { child, mark, first, rest: async () => readRest(reader) };
}

/** What a server that was killed could not take away itself, the next one does when it starts. */
async function restart(command?: string[]): Promise<void> {
  const { child, rest } = await serve("idle", command);
  child.kill("SIGTERM");
  await rest();
  expect(await child.exited).toBe(0);
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

function killIfThere(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {} // it ended by itself
}

describe("enterNamespace", () => {
  test("keeps the pid that was started as the outer one, and raises Bun's limit of requests", async () => {
    const { child, first } = await serve("idle");
    expect(first).toBe(`READY ${child.pid} 8192\n`);
    const { server } = chain(child.pid);
    expect(/^NSpid:\s+\d+\s+(\d+)$/m.exec(readFileSync(`/proc/${server}/status`, "latin1"))?.[1]).toBe("2");
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)(
    "drains on %s while sandboxes start, gives the server's exit code and leaves nothing",
    async (signal) => {
      for (let round = 0; round < ROUNDS; round += 1) {
        const before = residue();
        const { child, mark, rest } = await serve("storm");
        await systemClock.sleep(momentMs(round));
        child.kill(signal);
        expect(await child.exited).toBe(0);
        expect(await rest()).toBe("DRAINED\n");
        expect(processesMarked(mark)).toEqual([]);
        expect(await leftSince(before)).toEqual(NOTHING);
      }
    },
  );

  describe.each([
    ["started by hand", [], (pid: number) => pid],
    // As the first process of a container is.
    ["that is PID 1 of a PID namespace", PID_1, (pid: number) => childrenOf(pid)[0] ?? 0],
  ] as const)("of a server %s", (_how, before, launcherOf) => {
    test.skipIf(before.length > 0 && process.getuid?.() !== 0).each(["launcher", "unshare", "init", "server"] as const)(
      "leaves nothing when the %s is killed while sandboxes start",
      async (victim) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          const then = residue();
          const { child, mark } = await serve("storm", [...before, process.execPath, SERVER]);
          await systemClock.sleep(momentMs(round));
          expect(await eventually(() => descendantsOf(child.pid).length > 3)).toBe(true);
          const all = [child.pid, ...descendantsOf(child.pid)];
          process.kill(chain(launcherOf(child.pid))[victim], "SIGKILL");
          expect(await eventually(() => !all.some(isRunning) && processesMarked(mark).length === 0)).toBe(true);
          await child.exited;
          await restart();
          expect(await leftSince(then)).toEqual(NOTHING);
        }
      },
    );
  });

  test("goes on when processes of its sandboxes are killed in a storm, and leaves nothing of them", async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const then = residue();
      const { child, mark, rest } = await serve("storm");
      const { server } = chain(child.pid);
      for (let kill = 0; kill < 20; kill += 1) {
        await systemClock.sleep(20);
        // bwrap, stage 1, PID 1 of a sandbox, its shell, its daemon, a forwarder: whatever is there.
        const victims = descendantsOf(server);
        const victim = victims[(kill * 7919) % Math.max(victims.length, 1)];
        if (victim !== undefined) killIfThere(victim);
      }
      expect(isRunning(server)).toBe(true);
      child.kill("SIGTERM");
      expect(await rest()).toBe("DRAINED\n");
      expect(await child.exited).toBe(0);
      expect(processesMarked(mark)).toEqual([]);
      expect(await leftSince(then)).toEqual(NOTHING);
    }
    await restart();
    expect(readdirSync(snapshots)).toEqual([]);
  });

  test("ends the server when the launcher's pipe closes, though no parent-death signal came", async () => {
    const folder = mkdtempSync(join(tmpdir(), "launcher-"));
    try {
      writeFileSync(join(folder, "setpriv"), '#!/bin/sh\nshift 3\nexec "$@"\n', { mode: 0o755 });
      const path = `${folder}:${process.env.PATH}`;
      const { child, mark } = await serve("idle", ["/usr/bin/env", `PATH=${path}`, process.execPath, SERVER]);
      const { unshare, server } = chain(child.pid);
      expect(server).toBeGreaterThan(0);
      process.kill(child.pid, "SIGKILL");
      expect(await eventually(() => ![unshare, server].some(isRunning) && processesMarked(mark).length === 0)).toBe(
        true,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("shows the server and its sandboxes nothing of how it was started", async () => {
    const { child } = await serve("idle");
    const { server } = chain(child.pid);
    const names = readFileSync(`/proc/${server}/environ`, "latin1")
      .split("\0")
      .map((line) => line.split("=")[0]);
    const added = names.filter((name) => name?.startsWith("ROLLOUTD_") && process.env[name] === undefined);
    expect(added).toEqual(["ROLLOUTD_PID"]);
  });

  test("refuses with what to change where no namespace can be made", async () => {
    const folder = mkdtempSync(join(tmpdir(), "launcher-"));
    try {
      writeFileSync(join(folder, "unshare"), "#!/bin/sh\necho unshare: no space >&2\nexit 1\n", { mode: 0o755 });
      const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` };
      const child = Bun.spawn([process.execPath, SERVER], { env, stdio: ["ignore", "pipe", "pipe"] });
      expect(await new Response(child.stderr).text()).toMatch(
        /^rolloutd: no PID namespace can be made here \(unshare: no space\): \S.*\n$/,
      );
      expect(await child.exited).toBe(2);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("resumeInNamespace", () => {
  test("does not believe a mark that was given by hand, so that nothing outside is swept", async () => {
    const program = `import { resumeInNamespace, sweepOrphans } from ${JSON.stringify(LAUNCHER)};
resumeInNamespace();
console.log(sweepOrphans(), process.argv.at(-1));`;
    // Below a shell of its own PID namespace, where a sweep would find that shell's children and nothing else.
    const script = 'sleep 100 & exec 7</dev/null; "$0" -e "$1" -- --inside-namespace';
    const isolated = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"];
    const child = Bun.spawn([...isolated, "/bin/sh", "-c", script, process.execPath, program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect(await new Response(child.stdout).text()).toBe("0 --inside-namespace\n");
    await child.exited;
  });
});
