import type { Clock } from "../clock.ts";

/**
 * What a handler's work comes to, or the signal's reason when it goes on for `graceMs` after the abort: code of others
 * may ignore a signal, and must not keep a slot for that. Work that was left alone is nobody's any more; how it ends is
 * not looked at.
 */
export async function heed<T>(
  work: Promise<T>,
  { signal, clock, graceMs }: { signal: AbortSignal; clock: Clock; graceMs: number },
): Promise<T> {
  const over = new AbortController();
  const ignored = Promise.withResolvers<never>();
  const onAbort = () => {
    void clock.sleep(graceMs, over.signal).then(() => {
      if (!over.signal.aborted) ignored.reject(signal.reason);
    });
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, ignored.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
    over.abort();
  }
}
