import type { BackendProfile, EngineKind, ModelSession } from "./engine.ts";

export interface BackendSpec {
  /** `http://host:port`, `https://…`, `unix:/path` or `replay:/path`; without a trailing slash. */
  url: string;
  /** The model it is to serve; null takes the one the server names. */
  model: string | null;
  role: "policy" | "judge";
  kind: "auto" | EngineKind;
  apiKey: string | null;
  weight: number;
  /** Null is "0". */
  policyVersion: string | null;
  /** Folder with tokenizer.json and tokenizer_config.json (or chat_template.jinja); null renders on the server. */
  tokenizer: string | null;
}

export type BackendState = "probing" | "healthy" | "unhealthy" | "draining" | "sleeping";

export interface BackendView {
  id: string;
  url: string;
  model: string | null;
  role: "policy" | "judge";
  kind: "auto" | EngineKind;
  weight: number;
  policyVersion: string;
  tokenizer: string | null;
  state: BackendState;
  /** Why it is unhealthy; null when it is not. */
  detail: string | null;
  profile: BackendProfile | null;
  load: {
    /** Jobs that stick to it, turns in flight, and tokens reserved by those jobs' contexts. */
    jobs: number;
    turns: number;
    reservedTokens: number;
  };
  createdAtMs: number;
}

export interface SessionOptions {
  model: string;
  jobId: string;
  signal: AbortSignal;
  takesText?: boolean;
}

/** The known LLM servers and the way from a job to one of them. */
export interface Backends extends AsyncDisposable {
  /**
   * Registers and, unless `probe` is false, probes first. An unreachable server is registered as unhealthy.
   * Same url again: `created` false. Throws RequestError backend_mixed when its weights differ from those that serve the model.
   */
  add(spec: BackendSpec, options: { probe: boolean }): Promise<{ backend: BackendView; created: boolean }>;
  list(): readonly BackendView[];
  /** These throw RequestError backend_unknown. */
  get(id: string): BackendView;
  probe(id: string): Promise<BackendView>;
  drain(id: string): Promise<BackendView>;
  /** Throws RequestError backend_busy while jobs stick to it, unless `force`, which moves them. */
  remove(id: string, options: { force: boolean }): Promise<void>;
  /** Policy models with a backend that was healthy at least once in this life: jobs of others wait in the queue. */
  models(): readonly string[];
  /** Called when `models()` grows or a backend becomes healthy. Returns how to stop. */
  onChange(listener: () => void): () => void;
  /**
   * Waits for a healthy backend up to the configured time, then rejects backend_unreachable. Rejects backend_invalid
   * when the model is served by text alone, unless `takesText` says that its tokens need not be exact.
   */
  openSession(options: SessionOptions): Promise<ModelSession>;
}
