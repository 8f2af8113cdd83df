import type { Clock } from "../clock.ts";
import type { Backends } from "../llm/backends.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics/metrics.ts";
import type { ImageBuilds } from "../pipeline/image-builds.ts";
import type { Rollouts } from "../pipeline/rollouts.ts";
import type { Store } from "../store/store.ts";
import type { AuthConfig } from "./guard.ts";

/** What the routes work with. */
export interface AppDeps {
  store: Store;
  rollouts: Rollouts;
  backends: Backends;
  imageBuilds: ImageBuilds;
  metrics: Metrics;
  auth: AuthConfig;
  clock: Clock;
  log: Log;
  version: string;
  startedAtMs: number;
  /** Null when jobs can be worked on, else why not. */
  ready(): string | null;
  /** Aborts when the server begins to stop: event streams and long polls then end at once. */
  closing: AbortSignal;
}
