/** What a bench came to; `peer` is measured in the same run. All numbers in `unit`. */
export interface Measurement {
  what: string;
  unit: "ms" | "/s" | "MB";
  median: number;
  p99: number | null;
  /** Who it is compared with, and the peer's median. */
  peer: { name: string; median: number } | null;
  /** Ratio to the peer in the sense that more is better for us; null without a peer. */
  ratio: number | null;
  /** The standing bar, in words (design, standing numbers). */
  bar: string;
}

/** Milliseconds of each of `runs` calls after `warmups`. */
export async function times(runs: number, call: () => Promise<unknown>, warmups = 3): Promise<number[]> {
  for (let at = 0; at < warmups; at += 1) await call();
  const all: number[] = [];
  for (let at = 0; at < runs; at += 1) {
    const startMs = performance.now();
    await call();
    all.push(performance.now() - startMs);
  }
  return all;
}

/** The value that a share of all lie below. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** A measurement of times, compared with a peer's median: ratio 10 means ten times faster than the peer. */
export function ofTimes(
  what: string,
  ms: readonly number[],
  bar: string,
  peer: Measurement["peer"] = null,
): Measurement {
  const median = percentile(ms, 0.5);
  return {
    what,
    unit: "ms",
    median,
    p99: percentile(ms, 0.99),
    peer,
    ratio: peer === null ? null : peer.median / median,
    bar,
  };
}

export function ofRate(what: string, perSecond: number, bar: string): Measurement {
  return { what, unit: "/s", median: perSecond, p99: null, peer: null, ratio: null, bar };
}
