import type { Clock } from "../clock.ts";
import { LIMITS } from "../limits.ts";
import type { Backends } from "../llm/backends.ts";

/**
 * How long each model was without a healthy backend. RUN's time does not count it: a job that waits for a server must
 * not be graded as one that took too long. Looks every `outageLookMs`, so an outage is known to that much.
 */
export class Outages {
  readonly #backends: Backends;
  readonly #clock: Clock;
  readonly #downMs = new Map<string, number>();

  constructor(backends: Backends, clock: Clock) {
    this.#backends = backends;
    this.#clock = clock;
  }

  /** Milliseconds without a healthy backend since this began to watch. */
  downMs(model: string): number {
    return this.#downMs.get(model) ?? 0;
  }

  isDown(model: string): boolean {
    return !this.#healthyModels().has(model);
  }

  /** Watches until `stop` aborts. */
  async watch(stop: AbortSignal): Promise<void> {
    let lookedMs = this.#clock.nowMs();
    while (!stop.aborted) {
      await this.#clock.sleep(LIMITS.outageLookMs, stop);
      const nowMs = this.#clock.nowMs();
      const healthy = this.#healthyModels();
      for (const model of this.#backends.models()) {
        if (!healthy.has(model)) this.#downMs.set(model, this.downMs(model) + nowMs - lookedMs);
      }
      lookedMs = nowMs;
    }
  }

  #healthyModels(): Set<string | null> {
    const healthy = this.#backends.list().filter(({ role, state }) => role === "policy" && state === "healthy");
    return new Set(healthy.map((backend) => backend.model));
  }
}

/**
 * A signal that aborts with `reason` after `ms` in which the model had a backend, or with `parent`. `release` must be
 * called when the work is over.
 */
export function activeDeadline(
  { clock, outages }: { clock: Clock; outages: Outages },
  { model, ms }: { model: string; ms: number },
  parent: AbortSignal,
  reason: unknown,
) {
  const controller = new AbortController();
  const over = new AbortController();
  const onParent = () => controller.abort(parent.reason);
  if (parent.aborted) onParent();
  else parent.addEventListener("abort", onParent, { once: true });
  const fired = count();
  return {
    signal: controller.signal,
    async release(): Promise<void> {
      parent.removeEventListener("abort", onParent);
      over.abort();
      await fired;
    },
  };

  async function count(): Promise<void> {
    const beforeMs = outages.downMs(model);
    let givenBackMs = 0;
    for (let leftMs = ms; leftMs > 0; ) {
      await clock.sleep(leftMs, over.signal);
      if (over.signal.aborted) return;
      const downMs = outages.downMs(model) - beforeMs;
      leftMs = outages.isDown(model) ? LIMITS.outageLookMs : downMs - givenBackMs;
      givenBackMs = downMs;
    }
    controller.abort(reason);
  }
}
