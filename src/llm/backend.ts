import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";
import type { BackendSpec, BackendState, BackendView } from "./backends.ts";
import type { Candidate } from "./balancer.ts";
import type { Connection } from "./connect.ts";
import type { BackendProfile } from "./engine.ts";

/** One registered server: what is known of it, who uses it, and whether it can be asked. */
export class Backend {
  readonly id: string;
  readonly spec: BackendSpec;
  readonly createdAtMs: number;
  /** Null until a probe succeeded in this life. */
  connection: Connection | null = null;
  /** Of the last successful probe, also one before a restart. */
  profile: BackendProfile | null;
  draining: boolean;
  detail: string | null = null;
  jobs = 0;
  turns = 0;
  reservedTokens = 0;
  chosenAt = 0;
  /** Whether it was told, since the last probe, that raw log-probs were sampled at another temperature than 1. */
  warnedOfRaw = false;
  /** Health questions in a row without an answer. */
  unanswered = 0;
  #state: "probing" | "healthy" | "unhealthy" = "probing";
  /** Since the last turn that succeeded: a good probe alone does not clear a server that spoils turns. */
  #turnFailures = 0;
  /** Since the last good probe. */
  #probeFailures = 0;
  #down = new AbortController();

  constructor(init: {
    id: string;
    spec: BackendSpec;
    createdAtMs: number;
    draining: boolean;
    profile: BackendProfile | null;
  }) {
    this.id = init.id;
    this.spec = init.spec;
    this.createdAtMs = init.createdAtMs;
    this.draining = init.draining;
    this.profile = init.profile;
  }

  get model(): string | null {
    return this.spec.model ?? this.profile?.model ?? null;
  }

  get policyVersion(): string {
    return this.spec.policyVersion ?? "0";
  }

  get healthy(): boolean {
    return this.#state === "healthy" && this.connection !== null;
  }

  get state(): BackendState {
    return this.draining ? "draining" : this.#state;
  }

  /** Aborts when the server is found gone: turns in flight on it need not wait for their own deadline. */
  get down(): AbortSignal {
    return this.#down.signal;
  }

  /** How long until an unhealthy backend is probed again, ms. */
  get retryMs(): number {
    const failures = Math.max(this.#turnFailures, this.#probeFailures, 1);
    return Math.min(LLM_LIMITS.retryMsMax, LLM_LIMITS.retryMs * 2 ** (failures - 1));
  }

  connected(connection: Connection): void {
    this.connection = connection;
    this.profile = connection.profile;
    this.#state = "healthy";
    this.detail = null;
    this.unanswered = 0;
    this.warnedOfRaw = false;
    this.#probeFailures = 0;
    if (this.#down.signal.aborted) this.#down = new AbortController();
  }

  /**
   * No new turn goes there until a probe succeeds; those in flight go on. Gives whether that is news: of many turns
   * that break at once only the first counts, or one crash would look like many.
   */
  suspect(error: RolloutError): boolean {
    if (this.#state !== "healthy") return false;
    this.#state = "unhealthy";
    this.#turnFailures += 1;
    this.detail = error.message;
    return true;
  }

  /** It does not answer: turns in flight end now, with `backend_unreachable`. */
  lose(error: RolloutError): void {
    this.#state = "unhealthy";
    this.#probeFailures += 1;
    this.detail = error.message;
    this.#down.abort(new RolloutError("backend_unreachable", `the backend was given up: ${error.detail}`));
  }

  succeeded(): void {
    this.#turnFailures = 0;
  }

  candidate(): Candidate {
    const slots = this.profile?.slots ?? null;
    return {
      id: this.id,
      healthy: this.healthy && !this.draining,
      reservedTokens: this.reservedTokens,
      kvTokens: this.profile?.kvTokens ?? null,
      weight: this.spec.weight,
      queued: slots === null ? 0 : Math.max(0, this.turns - slots),
      chosenAt: this.chosenAt,
    };
  }

  view(): BackendView {
    const { url, role, kind, weight, tokenizer } = this.spec;
    return {
      id: this.id,
      url,
      model: this.model,
      role,
      kind,
      weight,
      policyVersion: this.policyVersion,
      tokenizer,
      state: this.state,
      detail: this.detail,
      profile: this.profile,
      load: { jobs: this.jobs, turns: this.turns, reservedTokens: this.reservedTokens },
      createdAtMs: this.createdAtMs,
    };
  }
}
