import type { Clock } from "../clock.ts";
import { assert, RolloutError } from "../errors.ts";
import { newId } from "../ids.ts";
import { LLM_LIMITS } from "../limits.ts";
import type { Renderer } from "../tokens/renderer.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { Backend } from "./backend.ts";
import { shouldLeave } from "./balancer.ts";
import { checkCompletion } from "./check.ts";
import type { Connection } from "./connect.ts";
import type { Completion, ModelSession, SessionCompletion } from "./engine.ts";
import { isBackendFault } from "./fault.ts";
import { createSessionRenderer } from "./session-renderer.ts";

/** What a session needs of the registry. */
export interface SessionHost {
  readonly clock: Clock;
  /** Backends that serve the model, healthy or not. */
  serving(model: string): readonly Backend[];
  /**
   * The backend for `tokens` more, waiting for a healthy one up to the configured time. Null when none came, or at
   * once when every backend of the model is in `excluded`.
   */
  pick(choice: {
    model: string;
    tokens: number;
    excluded: ReadonlySet<string>;
    signal: AbortSignal;
  }): Promise<Backend | null>;
  /** A turn's log-probs are raw and its temperature is not 1: they are not those it was sampled by. */
  foundRaw(backend: Backend, temperature: number): void;
  /** A turn failed by the backend's fault. */
  failed(backend: Backend, error: RolloutError): void;
}

/** A job's way to its model; see the port. `first` is where it starts. */
export class Session implements ModelSession {
  readonly renderer: Renderer;
  readonly #host: SessionHost;
  readonly #model: string;
  readonly #jobId: string;
  readonly #used: string[] = [];
  #pinned: Backend;
  #reserved: number = LLM_LIMITS.jobTokensGuess;
  /** Where this job is counted; null while it waits for a backend and once it is closed. */
  #held: Backend | null = null;
  #closed = false;

  constructor(host: SessionHost, options: { model: string; jobId: string; first: Backend }) {
    this.#host = host;
    this.#model = options.model;
    this.#jobId = options.jobId;
    this.#pinned = options.first;
    this.#hold(options.first);
    this.renderer = createSessionRenderer(connectionOf(options.first).renderer, (use, signal) =>
      this.#tryEach(this.#reserved, signal, (_backend, connection) => use(connection.renderer)),
    );
  }

  get contextTokensMax(): number {
    return connectionOf(this.#pinned).profile.contextTokensMax;
  }

  get logprobsMode(): "raw" | "processed" {
    return connectionOf(this.#pinned).profile.logprobsMode;
  }

  get tokenExact(): boolean {
    return connectionOf(this.#pinned).profile.tokenExact;
  }

  get backendIds(): readonly string[] {
    return this.#used;
  }

  async complete(ids: Int32Array, sampling: Sampling, signal: AbortSignal): Promise<SessionCompletion> {
    const start = performance.now();
    if (ids.length >= this.contextTokensMax) {
      throw new RolloutError("context_overflow", `${ids.length} tokens leave no room in ${this.contextTokensMax}`);
    }
    return this.#tryEach(ids.length + sampling.maxTokens, signal, async (backend, connection) => {
      const left = connection.profile.contextTokensMax - ids.length;
      const cut = { ...sampling, maxTokens: Math.max(1, Math.min(sampling.maxTokens, left)) };
      const queueMs = performance.now() - start;
      return { ...(await this.#ask(backend, connection, { ids, sampling: cut, signal })), queueMs };
    });
  }

  close(): void {
    this.#closed = true;
    this.#release();
  }

  /** Does `work` on the pinned backend, and on others while it fails by a backend's fault. The first cause is thrown. */
  async #tryEach<T>(
    tokens: number,
    signal: AbortSignal,
    work: (backend: Backend, connection: Connection) => Promise<T>,
  ): Promise<T> {
    const excluded = new Set<string>();
    let first: RolloutError | null = null;
    for (let attempt = 0; attempt < LLM_LIMITS.failoversMax; attempt += 1) {
      const backend = await this.#settle(tokens, excluded, signal);
      if (backend === null) break;
      try {
        const value = await work(backend, connectionOf(backend));
        backend.succeeded();
        return value;
      } catch (error) {
        signal.throwIfAborted();
        if (!isBackendFault(error)) throw error;
        first ??= error;
        this.#host.failed(backend, error);
        // A server that was only away may be asked again once it is back; one that answers wrongly may not.
        if (error.reason !== "backend_unreachable") excluded.add(backend.id);
      }
    }
    throw first ?? new RolloutError("backend_unreachable", `no healthy backend for ${this.#model}`);
  }

  /** The backend of the next turn: the pinned one while it may keep the job, else another, which is then pinned. */
  async #settle(tokens: number, excluded: ReadonlySet<string>, signal: AbortSignal): Promise<Backend | null> {
    assert(!this.#closed, "a closed session completes nothing");
    const candidates = this.#host.serving(this.#model).map((backend) => backend.candidate());
    const leave = excluded.has(this.#pinned.id) || shouldLeave(this.#pinned.id, candidates, LLM_LIMITS.repinMargin);
    if (!leave) {
      this.#reserve(tokens);
      return this.#pinned;
    }
    // Its own tokens must not speak against the backend it may come back to.
    this.#release();
    const backend = await this.#host.pick({ model: this.#model, tokens, excluded, signal });
    if (backend !== null) this.#pinned = backend;
    this.#hold(this.#pinned);
    this.#reserve(tokens);
    return backend;
  }

  async #ask(
    backend: Backend,
    connection: Connection,
    turn: { ids: Int32Array; sampling: Sampling; signal: AbortSignal },
  ): Promise<Omit<SessionCompletion, "queueMs">> {
    if (!this.#used.includes(backend.id)) this.#used.push(backend.id);
    const { logprobsMode, tokenExact } = connection.profile;
    if (logprobsMode === "raw" && turn.sampling.temperature !== 1) {
      this.#host.foundRaw(backend, turn.sampling.temperature);
    }
    const version = backend.policyVersion;
    const signal = AbortSignal.any([turn.signal, backend.down]);
    const send = async (requestId: string) => {
      backend.turns += 1;
      try {
        const completion = await connection.engine.complete(
          {
            ids: turn.ids,
            sampling: turn.sampling,
            stopTokenIds: this.renderer.endIds,
            cacheSalt: version,
            sessionId: this.#jobId,
            requestId,
          },
          signal,
        );
        // A bound in tokens says nothing about ids that are made from text.
        const idsMax = tokenExact ? turn.sampling.maxTokens : Number.POSITIVE_INFINITY;
        return { ...checkCompletion(completion, idsMax), requestId };
      } finally {
        backend.turns -= 1;
      }
    };
    const newRequestId = () => newId("req", this.#host.clock.nowMs());
    const answered = await send(newRequestId()).catch((error: unknown) => {
      // One more try, since a single wrong answer (a NaN in a batch) says little; the second one counts.
      if (error instanceof RolloutError && error.reason === "backend_invalid") return send(newRequestId());
      throw error;
    });
    if (answered.finishReason === "abort") {
      throw new RolloutError("backend_unreachable", "the server cut the turn before its end");
    }
    return { ...answered, ...this.#told(answered, version), backendId: backend.id };
  }

  /** Fills in what the server left to us, in the ledger's terms. */
  #told(completion: Completion, version: string): Pick<Completion, "versions" | "stopReason"> {
    const { stopReason, versions, ids } = completion;
    const byModel = typeof stopReason === "number" && this.renderer.endIds.includes(stopReason);
    return {
      versions: versions.length > 0 ? versions : [{ version, start: 0, end: ids.length }],
      stopReason: byModel ? null : stopReason,
    };
  }

  #reserve(tokens: number): void {
    if (this.#held !== null) this.#held.reservedTokens += tokens - this.#reserved;
    this.#reserved = tokens;
  }

  #hold(backend: Backend): void {
    if (this.#closed) return;
    this.#held = backend;
    backend.jobs += 1;
    backend.reservedTokens += this.#reserved;
  }

  #release(): void {
    if (this.#held === null) return;
    this.#held.jobs -= 1;
    this.#held.reservedTokens -= this.#reserved;
    this.#held = null;
  }
}

function connectionOf(backend: Backend): Connection {
  assert(backend.connection !== null, "a backend that was chosen is connected");
  return backend.connection;
}
