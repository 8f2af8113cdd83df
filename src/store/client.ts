import type { Clock } from "../clock.ts";
import { assert, RequestError, RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { workerUrl } from "../worker-url.ts";
import { type Answer, type FromWorker, receiveError, type ToWorker } from "./messages.ts";
import type { AttemptEnd, Commit, EndedAttempt, Store } from "./store.ts";
import type { VerbInput, VerbName, VerbOutput } from "./verbs.ts";

/**
 * Opens the store of `file` in a Worker of its own. Rejects with RolloutError store_failed when the file is locked by
 * another server, made by a newer version, or unreadable. The caller disposes of the store, which commits what is
 * still waiting.
 */
export async function createStore(options: { file: string; clock: Clock }): Promise<Store> {
  const connection = new Connection(options.clock);
  await connection.open(options.file);
  return storeOver(connection);
}

function storeOver(connection: Connection): Store {
  const call = connection.call.bind(connection);
  return {
    died: connection.died,
    submit: (groups, idempotency) => call("submit", { groups, idempotency }),
    claimQueued: (models) => call("claimQueued", models),
    claimAwaitingEval: () => call("claimAwaitingEval", null),
    moveJob: (move) => call("moveJob", move),
    saveTurn: (turn) => call("saveTurn", turn),
    saveToolResults: (results) => call("saveToolResults", results),
    endRun: (end) => call("endRun", end),
    endEval: (end) => call("endEval", end),
    failAttempt: (end) => call("failAttempt", spellOut(end)),
    failEval: (end) => call("failEval", spellOut(end)),
    requestCancel: (jobId) => call("requestCancel", jobId),
    endCancelled: (end) => call("endCancelled", end),
    recover: () => call("recover", null),
    job: (id) => call("loadJob", id),
    jobs: (filter) => call("listJobs", filter),
    group: (id) => call("readGroup", id),
    trajectory: (jobId) => call("readTrajectory", jobId),
    artifact: (jobId, name) => call("readArtifact", { jobId, name }),
    counts: () => call("countJobs", null),
    results: (query) => call("readResults", query),
    expireResults: (first) => call("expireResults", first),
    putConsumer: (name, committed) => call("putConsumer", { name, committed }),
    consumers: () => call("listConsumers", null),
    deleteConsumer: (name) => call("deleteConsumer", name),
    events: (query) => call("readEvents", query),
    lastEventSeq: () => call("lastEvent", null),
    onCommit: (listener) => connection.onCommit(listener),
    putBackend: (backend) => call("putBackend", backend),
    backends: () => call("listBackends", null),
    deleteBackend: (id) => call("deleteBackend", id),
    [Symbol.asyncDispose]: () => connection.close(),
  };
}

function spellOut(end: AttemptEnd): EndedAttempt {
  return { ...end, error: { reason: end.error.reason, detail: end.error.detail } };
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/**
 * The Worker and the calls it has not answered.
 *
 *   OPENING -> OPEN    by `open`; a failure to open ends in CLOSED.
 *   OPEN -> CLOSED     by `close`, or when the Worker dies: every waiting call is rejected, every later one at once.
 */
class Connection {
  readonly #clock: Clock;
  readonly #worker = new Worker(workerUrl("store/worker.ts"));
  readonly #opened = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<void>();
  readonly #died = Promise.withResolvers<Error>();
  readonly #pending = new Map<number, Pending>();
  readonly #listeners = new Set<(commit: Commit) => void>();
  #lastId = 0;
  #failure: Error | null = null;
  #closing = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#worker.onmessage = ({ data }: MessageEvent<FromWorker>) => this.#receive(data);
    this.#worker.onerror = (event) => this.#die(event.message);
    this.#worker.addEventListener("close", () => this.#die("it ended"));
  }

  async open(file: string): Promise<void> {
    this.#send({ kind: "open", file });
    try {
      await this.#opened.promise;
    } catch (error) {
      this.#worker.terminate();
      throw error;
    }
  }

  /** Hands a call to the Worker; resolves when its transaction is on disk. */
  call<Name extends VerbName>(verb: Name, input: VerbInput<Name>): Promise<VerbOutput<Name>> {
    const refusal = this.#refusal(verb);
    if (refusal) return Promise.reject(refusal);
    this.#lastId += 1;
    const id = this.#lastId;
    const nowMs = Math.floor(this.#clock.nowMs());
    return new Promise((resolve, reject) => {
      // First, since what cannot be cloned throws here, and would stay pending for ever.
      this.#send({ kind: "call", id, verb, input, nowMs } as ToWorker);
      this.#pending.set(id, { resolve: (value) => resolve(value as VerbOutput<Name>), reject });
    });
  }

  onCommit(listener: (commit: Commit) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    if (!this.#closing && this.#failure === null) this.#send({ kind: "close" });
    this.#closing = true;
    await this.#closed.promise;
    this.#worker.terminate();
  }

  #refusal(verb: VerbName): Error | null {
    if (this.#failure !== null) return this.#failure;
    if (this.#closing) return new RolloutError("store_failed", "the store is closed");
    if (this.#pending.size < LIMITS.storePendingMax) return null;
    const detail = `${this.#pending.size} calls wait for the store`;
    return verb === "submit" ? new RequestError("queue_full", detail) : new RolloutError("store_failed", detail);
  }

  #receive(message: FromWorker): void {
    if (message.kind === "opened") this.#opened.resolve();
    else if (message.kind === "failed") this.#opened.reject(receiveError(message.error));
    else if (message.kind === "closed") this.#fail(new RolloutError("store_failed", "the store is closed"));
    else {
      for (const answer of message.answers) this.#settle(answer);
      const { commit } = message;
      if (commit !== null) for (const listener of this.#listeners) listener(commit);
    }
  }

  #settle(answer: Answer): void {
    const pending = this.#pending.get(answer.id);
    assert(pending, `the store answered call ${answer.id} twice`);
    this.#pending.delete(answer.id);
    if ("error" in answer) pending.reject(receiveError(answer.error));
    else pending.resolve(answer.value);
  }

  get died(): Promise<Error> {
    return this.#died.promise;
  }

  #die(why: string): void {
    const error = new RolloutError("store_failed", `its Worker died: ${why}`);
    if (!this.#closing && this.#failure === null) this.#died.resolve(error);
    this.#fail(error);
  }

  /** Nothing more will be answered. */
  #fail(error: Error): void {
    this.#failure ??= error;
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
    this.#opened.reject(error);
    this.#closed.resolve();
  }

  #send(message: ToWorker): void {
    this.#worker.postMessage(message);
  }
}
