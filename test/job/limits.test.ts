import { describe, expect, test } from "bun:test";
import { DEFAULT_LIMITS, defaultsWithin, limitsAbove, parseLimitsMax, sandboxLimitsOf } from "../../src/job/limits.ts";

describe("parseLimitsMax", () => {
  test("takes limits by their wire names, and names one that is none or out of range", () => {
    expect(parseLimitsMax({ memory_bytes: 1 << 29, pids_max: 64 })).toEqual({ memoryBytes: 1 << 29, pidsMax: 64 });
    expect(() => parseLimitsMax({ memory: 1 })).toThrow("memory is no limit");
    expect(() => parseLimitsMax({ memory_bytes: 1 })).toThrow("memoryBytes");
  });
});

describe("defaultsWithin", () => {
  test("lowers a default to the maximum, and leaves those below it", () => {
    const defaults = defaultsWithin({ memoryBytes: 1 << 29, pidsMax: 32_768 });
    expect(defaults).toEqual({ ...DEFAULT_LIMITS, memoryBytes: 1 << 29 });
  });
});

describe("limitsAbove", () => {
  test("names what is above its maximum, with the maximum", () => {
    expect(limitsAbove({ ...DEFAULT_LIMITS, pidsMax: 300 }, { pidsMax: 299, turnsMax: 30 })).toEqual([
      { key: "pidsMax", max: 299 },
    ]);
  });
});

describe("sandboxLimitsOf", () => {
  test("gives defaults for what a job of an earlier version does not have", () => {
    const { inodesMax: _, ...older } = { ...DEFAULT_LIMITS, pidsMax: 9 };
    expect(sandboxLimitsOf(older as typeof DEFAULT_LIMITS)).toMatchObject({ inodesMax: 100_000, pidsMax: 9 });
    expect(sandboxLimitsOf(DEFAULT_LIMITS).fileBytes).toBe(DEFAULT_LIMITS.diskBytes);
  });
});
