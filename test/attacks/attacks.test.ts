import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { openSandbox } from "../../src/sandbox/bubblewrap-sandbox.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { resolveHost } from "../../src/sandbox/network/addresses.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { testBwrap } from "../support/bwrap.ts";
import { never, SMALL } from "./attack.ts";
import { ATTACKS } from "./attacks.ts";
import type { AttackResult } from "./program.ts";
import { REWARD } from "./reward.ts";
import { attackers, compileAttacks, runAttacks } from "./run-attacks.ts";
import { attackTables, withTables } from "./tables.ts";

setDefaultTimeout(300_000);

const { folder, program } = await compileAttacks();
const all = attackers();
/** Both side by side, as most of the time they wait; begun with the first test that asks. */
let begun: readonly Promise<Map<string, AttackResult>>[] = [];
function resultsOf(at: number): Promise<Map<string, AttackResult>> | undefined {
  if (begun.length === 0) begun = all.map((attacker) => runAttacks(program, attacker));
  return begun[at];
}
afterAll(async () => {
  await Promise.allSettled(begun);
  rmSync(folder, { recursive: true });
});

describe.each(all.map(({ who }, at) => ({ who, at })))("attacks on sandboxes that $who started", ({ at }) => {
  let results: Map<string, AttackResult>;
  beforeAll(async () => {
    results = (await resultsOf(at)) ?? new Map();
  });

  test.each(ATTACKS.map(({ name, must, contained }) => ({ name, must, contained })))(
    "$name: $must",
    ({ name, contained }) => {
      expect(results.get(name)?.got).toEqual(contained);
      expect(results.get(name)?.ok).toBe(true);
    },
  );

  test("leave no process, mount or file", () => {
    expect(results.get("nothing is left")).toMatchObject({ ok: true });
    expect(results.size).toBe(ATTACKS.length + 1);
  });
});

describe("the attacks", () => {
  /** A bubblewrap that leaves one layer out: it changes the arguments that the real one reads from descriptor 4. */
  async function without(name: string, change: string): Promise<string> {
    const path = join(folder, name);
    writeFileSync(
      path,
      `#!/usr/bin/python3 -IS\nimport os, sys\nargs = open(4, "rb").read().split(b"\\0")[:-1]\n${change}\nos.execv(${JSON.stringify(await testBwrap())}, [b"bwrap"] + args + [each.encode() for each in sys.argv[3:]])\n`,
    );
    chmodSync(path, 0o755);
    return path;
  }
  const dropping = (...option: string[]) =>
    `option = ${JSON.stringify(option)}
at = next(i for i in range(len(args)) if [each.decode() for each in args[i : i + len(option)]] == option)
del args[at : at + len(option)]`;

  test("are contained through the same wrapper when it leaves nothing out", async () => {
    const names = ["ptrace", "io_uring_setup", "ports of this machine", "the server's secrets", "the device folder"];
    const bwrap = await without("bwrap-whole", "");
    for (const attacker of attackers().slice(-1)) {
      const results = await runAttacks(program, attacker, { names, bwrap });
      expect(names.filter((name) => results.get(name)?.ok !== true)).toEqual([]);
    }
  });

  test.each([
    ["the seccomp filter", dropping("--seccomp", "3"), ["ptrace", "unshare", "keyctl", "io_uring_setup"]],
    ["the network namespace", dropping("--unshare-net"), ["ports of this machine", "abstract sockets"]],
    ["the pid namespace", dropping("--unshare-pid"), ["the server's secrets"]],
    ["the ipc namespace", dropping("--unshare-ipc"), ["segments of a neighbour"]],
    ["the closed /dev", dropping("--remount-ro", "/dev"), ["the device folder"]],
  ])("notice that %s is off", async (_layer, change, names) => {
    const bwrap = await without(`bwrap-${names[0]?.replaceAll(/\W/g, "-")}`, change);
    for (const attacker of attackers().slice(-1)) {
      const results = await runAttacks(program, attacker, { names, bwrap });
      expect(
        [...results.values()].filter(({ name, ok }) => ok && names.includes(name)).map(({ name }) => name),
      ).toEqual([]);
    }
  });

  test.skipIf(process.getuid?.() !== 0)("notice that sandboxes run as kernel uid 0", async () => {
    const stage = { bwrapPath: await testBwrap(), sandboxUid: null };
    const network = { admitted: [], resolve: resolveHost };
    const place = {
      stage,
      groups: null,
      snapshots: null,
      network,
      clock: systemClock,
      log: silentLog,
      sweepOrphans: () => {},
    };
    const rootImage = createHostImage({ usrLocal: false });
    await using stack = new AsyncDisposableStack();
    const open = async () => {
      const options = { id: "box", image: "host", rootImage, limits: SMALL, snapshotFd: null };
      return stack.use(await openSandbox(place, options, never));
    };
    const attack = ATTACKS.find(({ name }) => name === "kernel uid 0");
    const got = await attack?.run({ host: {} as SandboxHost, secret: { folder: "", path: "", text: "" }, open });
    // The settings are mounted read-only besides.
    expect(got).toEqual({ uids: true, settings: "closed" });
  });

  test("have names of their own, all of them told in the documentation", () => {
    const names = [...ATTACKS, ...REWARD].map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBeGreaterThan(200);
    const document = readFileSync(join(import.meta.dir, "../../docs/sandbox.md"), "utf8");
    expect(document).toBe(withTables(document, attackTables())); // bun scripts/attack-tables.ts
  });
});
