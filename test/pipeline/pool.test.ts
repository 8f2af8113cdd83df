import { describe, expect, test } from "bun:test";
import { Pool, type PoolPort } from "../../src/pipeline/pool.ts";
import { FakeClock } from "../support/fake-clock.ts";

/** A queue of names; each is at work until `finish` is called for it or the pool stops it. */
function aPort(waiting: string[], over: Partial<PoolPort<string>> = {}) {
  const gates = new Map<string, () => void>();
  const stopped: string[] = [];
  const thrown: unknown[] = [];
  const port: PoolPort<string> = {
    claim: () => Promise.resolve(waiting.shift() ?? null),
    work: (name, stop) =>
      new Promise((resolve) => {
        gates.set(name, resolve);
        stop.addEventListener("abort", () => {
          stopped.push(name);
          resolve();
        });
      }),
    onThrow: (cause) => thrown.push(cause),
    ...over,
  };
  return { port, waiting, stopped, thrown, finish: (name: string) => gates.get(name)?.() };
}

const LIMITS = { slots: 2, idleMs: 1_000 };

describe("Pool", () => {
  test("has no more at work than it has slots", async () => {
    const clock = new FakeClock();
    const { port, waiting, finish } = aPort(["a", "b", "c"]);
    const pool = new Pool(port, clock, LIMITS);
    await clock.settle();
    expect({ busy: pool.busy, waiting }).toEqual({ busy: 2, waiting: ["c"] });
    finish("a");
    await clock.settle();
    expect(waiting).toEqual([]);
    for (const name of ["b", "c"]) finish(name);
    await pool.drain(0);
    expect(pool.busy).toBe(0);
  });

  test("claims at once when it is woken, without waiting for idleMs", async () => {
    const clock = new FakeClock();
    const { port, waiting, finish } = aPort([]);
    const pool = new Pool(port, clock, LIMITS);
    await clock.settle();
    waiting.push("late");
    pool.wake();
    await clock.settle();
    expect(pool.busy).toBe(1);
    finish("late");
    await pool.drain(0);
  });

  test("asks again after idleMs when a wake-up was missed", async () => {
    const clock = new FakeClock();
    const { port, waiting, finish } = aPort([]);
    const pool = new Pool(port, clock, LIMITS);
    await clock.settle();
    waiting.push("unannounced");
    await clock.advance(999);
    expect(pool.busy).toBe(0);
    await clock.advance(1);
    expect(pool.busy).toBe(1);
    finish("unannounced");
    await pool.drain(0);
  });

  test("frees the slot and tells the cause when work rejects", async () => {
    const clock = new FakeClock();
    const { port, thrown } = aPort(["bad"], { work: () => Promise.reject(new Error("no")) });
    const pool = new Pool(port, clock, LIMITS);
    await clock.settle();
    expect({ busy: pool.busy, thrown }).toEqual({ busy: 0, thrown: [new Error("no")] });
    await pool.drain(0);
  });

  test("goes on after a claim that rejects", async () => {
    const clock = new FakeClock();
    let claims = 0;
    const { port, thrown } = aPort([], {
      claim: () => {
        claims += 1;
        return claims === 1 ? Promise.reject(new Error("store")) : Promise.resolve(null);
      },
    });
    const pool = new Pool(port, clock, { ...LIMITS, slots: 1 });
    await clock.advance(1_000);
    expect({ claims, thrown }).toEqual({ claims: 2, thrown: [new Error("store")] });
    await pool.drain(0);
  });

  test("stops what is still at work when the grace of the drain is over", async () => {
    const clock = new FakeClock();
    const { port, stopped } = aPort(["stuck"]);
    const pool = new Pool(port, clock, LIMITS);
    await clock.settle();
    const drained = pool.drain(5_000);
    await clock.advance(4_999);
    expect(stopped).toEqual([]);
    await clock.advance(1);
    await drained;
    expect({ busy: pool.busy, stopped }).toEqual({ busy: 0, stopped: ["stuck"] });
  });
});
