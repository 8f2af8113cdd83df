import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import { silentLog } from "../../src/log.ts";
import type { SandboxOptions } from "../../src/sandbox/sandbox.ts";
import { type Warmable, type WarmKind, WarmPool } from "../../src/sandbox/warm-pool.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { eventually, leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const REFILL_MS = 5;

class FakeSandbox implements Warmable {
  isLive = true;
  readonly #end = Promise.withResolvers<void>();
  readonly ended = this.#end.promise;

  async close(): Promise<void> {
    this.isLive = false;
    this.#end.resolve();
  }
}

function aPool(over: { warmMax?: number; hasRoom?: () => boolean } = {}) {
  const clock = new FakeClock();
  const started: FakeSandbox[] = [];
  const pool = new WarmPool<FakeSandbox>({ warmMax: 4, hasRoom: () => true, clock, log: silentLog, ...over });
  const kind = (key = "a", start?: () => Promise<FakeSandbox>): WarmKind<FakeSandbox> => ({
    key,
    imageId: `image-${key}`,
    start: async () => {
      const sandbox = (await start?.()) ?? new FakeSandbox();
      started.push(sandbox);
      return sandbox;
    },
  });
  /** Lets the pool start what it wants. */
  const refill = () => clock.advance(10 * REFILL_MS);
  return { pool, clock, kind, refill, started };
}

describe("WarmPool", () => {
  test("has none for the first who asks, and one for the next", async () => {
    const { pool, kind, refill, started } = aPool();
    expect(pool.take(kind())).toBeNull();
    await refill();
    const [first] = started;
    expect(pool.take(kind())).toBe(first as FakeSandbox);
    await refill();
    expect(pool.size).toBe(1);
    expect(pool.take(kind("b"))).toBeNull();
  });

  test("hands none over twice, nor one that died", async () => {
    const { pool, kind, refill, started } = aPool();
    for (let i = 0; i < 3; i += 1) pool.take(kind());
    await refill();
    expect(pool.size).toBe(3);
    if (started[0] !== undefined) started[0].isLive = false;
    const taken = [pool.take(kind()), pool.take(kind()), pool.take(kind())];
    expect(taken).toEqual([started[1], started[2], null] as FakeSandbox[]);
    await started[1]?.close(); // the one who took it
    await refill();
    expect(new Set(started).size).toBe(started.length);
  });

  test("keeps more for more who ask at once, up to its bound over all kinds", async () => {
    const { pool, kind, refill } = aPool();
    for (let i = 0; i < 10; i += 1) pool.take(kind());
    await refill();
    expect(pool.size).toBe(4);
    pool.take(kind("b"));
    await refill();
    expect(pool.size).toBe(4);
  });

  test("closes what was not needed for a while, in the end all", async () => {
    const { pool, kind, refill, clock, started } = aPool();
    for (let i = 0; i < 4; i += 1) pool.take(kind());
    await refill();
    expect(pool.size).toBe(4);
    await clock.advance(LIMITS.warmLookMs * 2);
    expect(pool.size).toBeLessThan(4);
    await clock.advance(LIMITS.warmLookMs * 6);
    expect(pool.size).toBe(0);
    expect(started.some(({ isLive }) => isLive)).toBe(false);
  });

  test("keeps what is needed all the time", async () => {
    const { pool, kind, refill, clock } = aPool();
    pool.take(kind());
    for (let looks = 0; looks < 10; looks += 1) {
      await refill();
      expect(pool.take(kind())).not.toBeNull();
      await clock.advance(LIMITS.warmLookMs);
    }
  });

  test("starts none without room, and gives one up for a sandbox that somebody wants", async () => {
    let hasRoom = true;
    const { pool, kind, refill, clock, started } = aPool({ hasRoom: () => hasRoom });
    pool.take(kind());
    await refill();
    hasRoom = false;
    expect(await pool.yieldOne()).toBe(true);
    expect(started[0]?.isLive).toBe(false);
    expect(await pool.yieldOne()).toBe(false);
    pool.take(kind());
    await refill();
    expect(pool.size).toBe(0);
    hasRoom = true;
    pool.take(kind());
    await clock.advance(LIMITS.warmLookMs);
    expect(pool.size).toBeGreaterThan(0);
  });

  test("drains an image also of those that are just starting, and starts no more of it", async () => {
    const { pool, kind, refill, clock, started } = aPool();
    const slow = Promise.withResolvers<FakeSandbox>();
    pool.take(kind("a", () => slow.promise));
    pool.take(kind("b"));
    await clock.advance(REFILL_MS);
    const drained = pool.drain("image-a");
    slow.resolve(new FakeSandbox());
    await Promise.all([drained, refill()]);
    expect(started[0]?.isLive).toBe(false);
    await refill();
    expect(started.filter(({ isLive }) => isLive)).toHaveLength(1);
  });

  test("does not start again what cannot be started, until somebody asks", async () => {
    const { pool, kind, refill } = aPool();
    let tries = 0;
    const broken = kind("a", () => {
      tries += 1;
      return Promise.reject(new Error("no"));
    });
    pool.take(broken);
    await refill();
    await refill();
    expect(tries).toBe(1);
    pool.take(broken);
    await refill();
    expect(tries).toBe(2);
  });

  test("closes all it has, and gives none any more, when it is disposed", async () => {
    const { pool, kind, refill, started } = aPool();
    pool.take(kind());
    await refill();
    await pool[Symbol.asyncDispose]();
    expect(started.some(({ isLive }) => isLive)).toBe(false);
    expect(pool.take(kind())).toBeNull();
  });
});

describe("a host with a warm pool", () => {
  const call = { timeoutMs: 20_000, signal: never };
  const plain = { image: "host", limits: TEST_LIMITS };

  test("hands over a fresh sandbox with its files, and each to one only", async () => {
    const before = residue();
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost({ warmMax: 3 }), (each) => each.close());
    await (await host.open(plain, never)).close();
    expect(await eventually(() => host.warm === 1)).toBe(true);
    const seen = new Set<string>();
    for (let i = 0; i < 20; i += 1) {
      const files = [{ path: "/workspace/mine", bytes: Buffer.from(String(i)) }];
      await using sandbox = await host.open({ ...plain, files }, never);
      const answer = await sandbox.shell("pwd; ls; cat mine; ls -A /tmp; echo $LEFT; LEFT=1; touch /tmp/left", call);
      expect(answer.output).toBe(`/workspace\nmine\n${i}\n`.replace(/\n$/, "\n"));
      seen.add(sandbox.id);
    }
    expect(seen.size).toBe(20);
    await host.close();
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("starts one anew for other limits, another folder or a snapshot", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost({ warmMax: 2 }), (each) => each.close());
    await (await host.open(plain, never)).close();
    expect(await eventually(() => host.warm === 1)).toBe(true);
    const others: SandboxOptions[] = [
      { ...plain, cwd: "/elsewhere" },
      { ...plain, limits: { ...TEST_LIMITS, pidsMax: 63 } },
    ];
    for (const options of others) {
      await using sandbox = await host.open(options, never);
      expect((await sandbox.shell("pwd; ulimit -u", call)).output).toBe(
        options.cwd === undefined ? "/workspace\n75\n" : "/elsewhere\n76\n",
      );
    }
    await using first = await host.open(plain, never);
    expect((await first.shell("pwd", call)).output).toBe("/workspace\n");
  });

  test("gives its warm ones up at the bound, skips one that was killed, and can be drained", async () => {
    await using closer = new AsyncDisposableStack();
    const host = closer.adopt(await testSandboxHost({ warmMax: 2, sandboxesMax: 2 }), (each) => each.close());
    await using one = await host.open(plain, never);
    expect(await eventually(() => host.warm === 1)).toBe(true);
    await using two = await host.open({ ...plain, cwd: "/elsewhere" }, never);
    expect([host.live, host.warm]).toEqual([2, 0]);
    expect(host.open(plain, never)).rejects.toThrow("2 sandboxes live already");
    await two.close();
    await (await host.open(plain, never)).close();
    expect(await eventually(() => host.warm === 1)).toBe(true);
    await host.drain(host.images()[0]?.id ?? "");
    expect(host.warm).toBe(0);
    expect(host.images()[0]?.inUse).toBe(1);
    await one.close();
  });
});
