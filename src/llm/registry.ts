import { type Clock, deadline } from "../clock.ts";
import { asRolloutError, RequestError, RolloutError } from "../errors.ts";
import { newId } from "../ids.ts";
import { LLM_LIMITS } from "../limits.ts";
import type { Log } from "../log.ts";
import { Supervisor } from "../supervisor.ts";
import { createLocalRenderers, type LocalRenderers } from "../tokens/local-renderers.ts";
import { Backend } from "./backend.ts";
import type { BackendSpec, Backends, BackendView, SessionOptions } from "./backends.ts";
import { choose } from "./balancer.ts";
import { Changes } from "./changes.ts";
import { type Connection, type ConnectOptions, checkUrl, connect } from "./connect.ts";
import type { Engine, ModelSession } from "./engine.ts";
import { watchHealth } from "./health.ts";
import { mixedText, mixedWith } from "./mixed.ts";
import { Session, type SessionHost } from "./session.ts";
import { type BackendPersistence, fromStored, noPersistence, toStored } from "./stored.ts";

/** How the model side is set up; all times ms. */
export interface BackendsOptions {
  clock: Clock;
  log: Log;
  /** How long a job waits for a healthy backend before its attempt ends. */
  backendWaitMs: number;
  /** Bound of one turn, from its request to its last token. */
  turnMs: number;
  persistence?: BackendPersistence;
  /** Taken over: disposed with the backends. */
  renderers?: LocalRenderers;
  /** Engines that are not reached over HTTP, such as scripted ones; asked first, by url. */
  engineFor?: (spec: BackendSpec) => Engine | null;
}

/** Loads the stored backends, which are probed in the background, and keeps watch over all from then on. */
export async function createBackends(options: BackendsOptions): Promise<Backends> {
  const registry = new Registry(options);
  await registry.load();
  return registry;
}

class Registry implements Backends, SessionHost {
  readonly clock: Clock;
  readonly #options: BackendsOptions;
  readonly #connect: ConnectOptions;
  readonly #persistence: BackendPersistence;
  readonly #backends = new Map<string, Backend>();
  readonly #everHealthy = new Set<string>();
  readonly #changes = new Changes();
  readonly #watches = new Map<string, { stop: AbortController; wake: () => void }>();
  readonly #stop = new AbortController();
  readonly #supervisor: Supervisor;
  #chosen = 0;

  constructor(options: BackendsOptions) {
    this.clock = options.clock;
    this.#options = options;
    this.#persistence = options.persistence ?? noPersistence;
    this.#supervisor = new Supervisor(options.log);
    this.#connect = {
      clock: options.clock,
      renderers: options.renderers ?? createLocalRenderers(),
      turnMs: options.turnMs,
      engineFor: options.engineFor ?? (() => null),
    };
  }

  async load(): Promise<void> {
    for (const row of await this.#persistence.load()) {
      const backend = fromStored(row);
      this.#backends.set(backend.id, backend);
      this.#watch(backend);
    }
  }

  async add(spec: BackendSpec, options: { probe: boolean }): Promise<{ backend: BackendView; created: boolean }> {
    checkUrl(spec, this.#connect);
    const known = [...this.#backends.values()].find((backend) => backend.spec.url === spec.url);
    if (known !== undefined) return { backend: known.view(), created: false };
    if (this.#backends.size >= LLM_LIMITS.backendsMax) {
      throw new RequestError("field_invalid", `there are ${LLM_LIMITS.backendsMax} backends already`);
    }
    const createdAtMs = Math.floor(this.clock.nowMs());
    const backend = new Backend({ id: newId("bck", createdAtMs), spec, createdAtMs, draining: false, profile: null });
    this.#backends.set(backend.id, backend);
    try {
      if (options.probe) {
        const other = await this.#probe(backend);
        if (other !== null) throw new RequestError("backend_mixed", mixedText(spec.url, other));
      }
      await this.#persistence.save(toStored(backend));
    } catch (error) {
      this.#backends.delete(backend.id);
      throw error;
    }
    this.#watch(backend);
    this.#changes.tell();
    return { backend: backend.view(), created: true };
  }

  list(): readonly BackendView[] {
    return [...this.#backends.values()].map((backend) => backend.view());
  }

  get(id: string): BackendView {
    return this.#find(id).view();
  }

  /** Also ends a drain. */
  async probe(id: string): Promise<BackendView> {
    const backend = this.#find(id);
    await this.#probe(backend);
    backend.draining = false;
    await this.#persistence.save(toStored(backend));
    this.#changes.tell();
    return backend.view();
  }

  async drain(id: string): Promise<BackendView> {
    const backend = this.#find(id);
    backend.draining = true;
    await this.#persistence.save(toStored(backend));
    this.#changes.tell();
    return backend.view();
  }

  async remove(id: string, options: { force: boolean }): Promise<void> {
    const backend = this.#find(id);
    if (backend.jobs > 0 && !options.force) {
      throw new RequestError("backend_busy", `${backend.jobs} jobs stick to ${id}; force moves them`);
    }
    await this.#persistence.remove(id);
    this.#backends.delete(id);
    this.#watches.get(id)?.stop.abort();
    this.#watches.delete(id);
    backend.lose(new RolloutError("backend_unreachable", "it was removed"));
    this.#changes.tell();
  }

  models(): readonly string[] {
    const served = new Set(this.#policies().map((backend) => backend.model));
    return [...this.#everHealthy].filter((model) => served.has(model));
  }

  onChange(listener: () => void): () => void {
    return this.#changes.listen(listener);
  }

  async openSession(options: SessionOptions): Promise<ModelSession> {
    const { model, jobId, signal } = options;
    const choice = { model, tokens: LLM_LIMITS.jobTokensGuess, excluded: new Set<string>(), signal };
    const first = await this.pick(choice);
    if (first === null) throw new RolloutError("backend_unreachable", this.#whyNone(model));
    const isText = first.profile?.tokenExact === false;
    if (isText && !options.takesText) {
      throw new RolloutError("backend_invalid", `${first.spec.url} gives text alone: its tokens cannot be trained on`);
    }
    return new Session(this, { model, jobId, first });
  }

  serving(model: string): readonly Backend[] {
    const all = [...this.#backends.values()].filter((backend) => backend.model === model);
    const policies = all.filter((backend) => backend.spec.role === "policy");
    return policies.length > 0 ? policies : all;
  }

  async pick(choice: Parameters<SessionHost["pick"]>[0]): Promise<Backend | null> {
    const { model, tokens, excluded, signal } = choice;
    const wait = deadline(this.clock, this.#options.backendWaitMs, AbortSignal.any([signal, this.#stop.signal]), null);
    try {
      for (;;) {
        signal.throwIfAborted();
        this.#stop.signal.throwIfAborted();
        const serving = this.serving(model);
        const open = serving.filter((backend) => !excluded.has(backend.id));
        const id = choose(
          open.map((backend) => backend.candidate()),
          tokens,
        );
        const found = open.find((backend) => backend.id === id);
        if (found !== undefined) {
          found.chosenAt = ++this.#chosen;
          return found;
        }
        const hopeless = serving.length > 0 && open.length === 0;
        if (hopeless || wait.signal.aborted) return null;
        await this.#changes.wait(wait.signal);
      }
    } finally {
      await wait.release();
    }
  }

  foundRaw(backend: Backend, temperature: number): void {
    if (backend.warnedOfRaw) return;
    backend.warnedOfRaw = true;
    this.#options.log.warn("llm:raw_logprobs", {
      backend_id: backend.id,
      temperature,
      detail: `log-probs are those before temperature, so at ${temperature} they are not the sampler's`,
    });
  }

  failed(backend: Backend, error: RolloutError): void {
    this.#options.log.warn("llm:turn_failed", { backend_id: backend.id, reason: error.reason, detail: error.detail });
    if (!backend.suspect(error)) return;
    this.#watches.get(backend.id)?.wake();
    this.#changes.tell();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(new RolloutError("server_restart", "the server is stopping"));
    for (const watch of this.#watches.values()) watch.stop.abort();
    this.#changes.tell();
    await this.#supervisor.drain();
    await this.#connect.renderers[Symbol.asyncDispose]();
  }

  #watch(backend: Backend): void {
    const stop = new AbortController();
    const watch = watchHealth(backend, {
      clock: this.clock,
      signal: stop.signal,
      probe: async () => {
        await this.#probe(backend);
        if (backend.healthy) await this.#saveProfile(backend);
        this.#changes.tell();
      },
      changed: () => this.#changes.tell(),
    });
    this.#watches.set(backend.id, { stop, wake: watch.wake });
    this.#supervisor.own(`health of ${backend.id}`, watch.done);
  }

  /** What the store cannot take must not end the watch: the next probe tries again. */
  async #saveProfile(backend: Backend): Promise<void> {
    if (!this.#backends.has(backend.id)) return;
    await this.#persistence.save(toStored(backend)).catch((error: unknown) => {
      this.#options.log.error("llm:backend_not_saved", { backend_id: backend.id, error });
    });
  }

  /** Leaves the backend healthy, or unhealthy with the reason. Gives the backend whose model it has with other weights. */
  async #probe(backend: Backend): Promise<Backend | null> {
    const late = new RolloutError("backend_timeout", `the probe took longer than ${LLM_LIMITS.probeMs} ms`);
    const limit = deadline(this.clock, LLM_LIMITS.probeMs, this.#stop.signal, late);
    const before = backend.state;
    try {
      const connection = await connect(backend.spec, this.#connect, limit.signal);
      const other = mixedWith(backend, connection.profile, [...this.#backends.values()]);
      if (other === null) this.#joined(backend, connection);
      else backend.lose(new RolloutError("backend_invalid", mixedText(backend.spec.url, other)));
      return other;
    } catch (error) {
      backend.lose(asRolloutError(error, "backend_invalid"));
      return null;
    } finally {
      await limit.release();
      if (!backend.healthy && before !== "unhealthy") {
        this.#options.log.warn("llm:backend_unhealthy", { backend_id: backend.id, detail: backend.detail });
      }
    }
  }

  #joined(backend: Backend, connection: Connection): void {
    backend.connected(connection);
    if (backend.spec.role === "policy") this.#everHealthy.add(connection.profile.model);
    this.#options.log.info("llm:backend_healthy", { backend_id: backend.id, model: connection.profile.model });
  }

  #policies(): Backend[] {
    return [...this.#backends.values()].filter((backend) => backend.spec.role === "policy");
  }

  #find(id: string): Backend {
    const backend = this.#backends.get(id);
    if (backend === undefined) throw new RequestError("backend_unknown", `there is no backend ${id}`);
    return backend;
  }

  #whyNone(model: string): string {
    const serving = this.serving(model);
    if (serving.length === 0) return `no backend serves ${model}`;
    return `no healthy backend for ${model}: ${serving.map(({ id, state, detail }) => `${id} ${state} (${detail})`).join("; ")}`;
  }
}
