import { type Clock, deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";
import type { Backend } from "./backend.ts";

export interface WatchOptions {
  clock: Clock;
  signal: AbortSignal;
  /** Leaves the backend healthy or unhealthy; never throws. */
  probe: () => Promise<void>;
  changed: () => void;
}

/**
 * Watches one backend until `signal` aborts: asks a healthy one for its health, and probes an unhealthy one again
 * after a growing pause (the probe samples a token, so a server that answers but cannot work stays out). `wake` makes
 * it look at the backend anew, as after a failed turn.
 */
export function watchHealth(backend: Backend, options: WatchOptions): { done: Promise<void>; wake: () => void } {
  let waker = new AbortController();
  const run = async () => {
    if (backend.state === "probing") await options.probe();
    while (!options.signal.aborted) {
      waker = new AbortController();
      const pause = backend.healthy ? LLM_LIMITS.healthIntervalMs : backend.retryMs;
      await options.clock.sleep(pause, AbortSignal.any([options.signal, waker.signal]));
      if (options.signal.aborted) return;
      // A wake-up only starts the pause anew: a failed turn has made the backend unhealthy.
      if (waker.signal.aborted) continue;
      if (backend.healthy) await askHealth(backend, options);
      else await options.probe();
    }
  };
  return { done: run(), wake: () => waker.abort() };
}

async function askHealth(backend: Backend, options: WatchOptions): Promise<void> {
  const engine = backend.connection?.engine;
  if (engine === undefined) return;
  const limit = deadline(options.clock, LLM_LIMITS.controlMs, options.signal, "late");
  const well = await engine.healthy(limit.signal);
  await limit.release();
  if (options.signal.aborted) return;
  backend.unanswered = well ? 0 : backend.unanswered + 1;
  if (backend.unanswered < LLM_LIMITS.healthFailuresMax) return;
  backend.lose(new RolloutError("backend_unreachable", `${backend.unanswered} health questions went unanswered`));
  options.changed();
}
