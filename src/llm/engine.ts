import type { Renderer } from "../tokens/renderer.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { FinishReason, VersionSpan } from "../trajectory/turn.ts";

/** One model call, by ids. */
export interface CompletionRequest {
  ids: Int32Array;
  /** `maxTokens` is already cut to what the context leaves. */
  sampling: Sampling;
  stopTokenIds: readonly number[];
  /** The policy version: no cached prefix of older weights may serve newer ones. */
  cacheSalt: string;
  sessionId: string;
  requestId: string;
}

/** What came back, checked: `ids` and `logprobs` have one length >= 1 (0 only with `abort`), log-probs are finite. */
export interface Completion {
  ids: Int32Array;
  logprobs: Float32Array;
  finishReason: FinishReason;
  stopReason: number | string | null;
  versions: readonly VersionSpan[];
  cachedTokens: number | null;
  firstTokenMs: number | null;
  generationMs: number;
  endpoint: string;
}

/** Dialects of servers, and two engines that need none: a script, and a recorded session. */
export const ENGINE_KINDS = ["vllm", "sglang", "llamacpp", "prorl", "chat", "scripted", "replay"] as const;
export type EngineKind = (typeof ENGINE_KINDS)[number];

/** What the probe found; stored with the backend and shown by `rolloutd backend show`. */
export interface BackendProfile {
  kind: EngineKind;
  version: string | null;
  model: string;
  /** Longest prompt plus completion, tokens. */
  contextTokensMax: number;
  /** Requests the server works on at once; null where it does not say. */
  slots: number | null;
  kvTokens: number | null;
  logprobsMode: "raw" | "processed";
  renderer: "local" | "remote";
  /** The route that turns are sent to. */
  endpoint: string;
  /** False where ids and log-probs are made from text: such turns are for judges, and for jobs that ask for them. */
  tokenExact: boolean;
  /** Whether a turn's answer says which weights sampled each of its tokens. */
  tellsVersions: boolean;
  /** Where a turn is ended by its id, `{id}` standing for ours as it is written there; null: only by hanging up. */
  abort: { route: string; id: string } | null;
  /** Where the version of the weights is told, and what it was; null where the server has no such route. */
  weights: { route: string; version: string } | null;
  /** Whether a stream may be asked for in few pieces; false also where turns are not streamed. */
  streamInterval: boolean;
  /** Whether the routes that pause the server and change its weights are open; null where that is no question. */
  devMode: boolean | null;
  /** Why the renderer is remote, or what else the operator should know. */
  notes: readonly string[];
  /** Hash of what must be equal for two backends to serve one model (engine, weights, quantisation as far as told). */
  weightsIdentity: string;
}

/** An LLM server behind its dialect. Throws RolloutError backend_unreachable | backend_invalid | backend_timeout. */
export interface Engine {
  readonly kind: EngineKind;
  probe(signal: AbortSignal): Promise<BackendProfile>;
  complete(request: CompletionRequest, signal: AbortSignal): Promise<Completion>;
  /** Cheap: is the server there and willing? */
  healthy(signal: AbortSignal): Promise<boolean>;
  /** The renderer that speaks through this server's own routes. */
  remoteRenderer(signal: AbortSignal): Promise<Renderer>;
}

/** A turn's completion with who gave it: what a job needs for its ledger. */
export interface SessionCompletion extends Completion {
  backendId: string;
  requestId: string;
  queueMs: number;
}

/**
 * One job's way to the model. Turns stick to one backend while it lives; when it dies the same ids go to another.
 * `close` gives back the reserved load and is called exactly once, however the job ended.
 */
export interface ModelSession {
  readonly renderer: Renderer;
  readonly contextTokensMax: number;
  readonly logprobsMode: "raw" | "processed";
  /** False when the turns are text, with ids and log-probs made from it. */
  readonly tokenExact: boolean;
  /** `firstTurn` of a job waits for a backend; rejects with RolloutError when none can answer in time. */
  complete(ids: Int32Array, sampling: Sampling, signal: AbortSignal): Promise<SessionCompletion>;
  /** Backends that served this session, in order of first use. */
  readonly backendIds: readonly string[];
  close(): void;
}
