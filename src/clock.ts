/** Time as an argument: production code waits through a Clock, tests move it by hand. All values are milliseconds. */
export interface Clock {
  /** Wall-clock time since the Unix epoch; only differences within one process are exact. */
  nowMs(): number;
  /** Resolves after `ms`, or at once when `signal` aborts; never rejects, so a caller checks the signal. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  nowMs: () => performance.timeOrigin + performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      const timer = setTimeout(done, ms);
      signal?.addEventListener("abort", done, { once: true });
      function done() {
        clearTimeout(timer);
        signal?.removeEventListener("abort", done);
        resolve();
      }
    }),
};

/**
 * An abort signal that fires `ms` from now, or with `parent`. `release` must be called when the work is over, or
 * the timer lives on. `reason` is what the signal aborts with when the time is up.
 */
export function deadline(clock: Clock, ms: number, parent: AbortSignal, reason: unknown) {
  const controller = new AbortController();
  const timer = new AbortController();
  const onParent = () => controller.abort(parent.reason);
  if (parent.aborted) onParent();
  else parent.addEventListener("abort", onParent, { once: true });
  const fired = clock.sleep(ms, timer.signal).then(() => {
    if (!timer.signal.aborted) controller.abort(reason);
  });
  return {
    signal: controller.signal,
    async release(): Promise<void> {
      parent.removeEventListener("abort", onParent);
      timer.abort();
      await fired;
    },
  };
}

/** `2026-11-30T18:00:00.000Z`: RFC 3339, UTC, milliseconds, as every time on the wire. */
export function wireTime(ms: number): string {
  return new Date(ms).toISOString();
}
