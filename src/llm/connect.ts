import type { Clock } from "../clock.ts";
import { RequestError, RolloutError } from "../errors.ts";
import type { LocalRenderers } from "../tokens/local-renderers.ts";
import type { Renderer } from "../tokens/renderer.ts";
import type { BackendSpec } from "./backends.ts";
import { detectKind } from "./detect.ts";
import type { BackendProfile, Engine } from "./engine.ts";
import { createLlamaCppEngine } from "./engines/llamacpp.ts";
import { createVllmEngine } from "./engines/vllm.ts";
import { createHttp, parseAddress } from "./http.ts";
import { compareRenderers } from "./parity.ts";

export interface ConnectOptions {
  clock: Clock;
  renderers: LocalRenderers;
  /** Bound of one turn, ms. */
  turnMs: number;
  /** Engines that are no HTTP server, by url; null for all others. */
  engineFor: (spec: BackendSpec) => Engine | null;
}

/** A backend that answered its probe. */
export interface Connection {
  engine: Engine;
  profile: BackendProfile;
  renderer: Renderer;
}

/** Throws RequestError field_invalid when the url is none that could be connected to. */
export function checkUrl(spec: BackendSpec, options: ConnectOptions): void {
  if (options.engineFor(spec) !== null || parseAddress(spec.url) !== null) return;
  const fault = { path: "url", message: `${spec.url} is no url`, accepted: "http://host:port or unix:/path" };
  throw new RequestError("field_invalid", `${fault.message}; accepted: ${fault.accepted}`, [fault]);
}

/** Finds out what the server is and can do, and who renders for it. Throws RolloutError backend_* when it cannot serve. */
export async function connect(spec: BackendSpec, options: ConnectOptions, signal: AbortSignal): Promise<Connection> {
  const engine = options.engineFor(spec) ?? (await engineOf(spec, options, signal));
  const profile = await engine.probe(signal);
  if (spec.model !== null && spec.model !== profile.model && engine.kind !== "llamacpp") {
    throw new RolloutError("backend_invalid", `the server has ${profile.model}, not ${spec.model}`);
  }
  // llama.cpp serves one model whatever it is called, so the name given at registration stands.
  const named = spec.model === null ? profile : { ...profile, model: spec.model };
  const { renderer, notes } = await chooseRenderer(spec, engine, options.renderers, signal);
  return { engine, renderer, profile: { ...named, renderer: renderer.kind, notes: [...profile.notes, ...notes] } };
}

async function engineOf(spec: BackendSpec, options: ConnectOptions, signal: AbortSignal): Promise<Engine> {
  const address = parseAddress(spec.url);
  if (address === null) throw new RolloutError("backend_unreachable", `${spec.url} is no url`);
  const { clock, turnMs } = options;
  const http = createHttp(address, spec.apiKey, clock);
  const kind = spec.kind === "auto" ? await detectKind(http, signal) : spec.kind;
  if (kind === "llamacpp") return createLlamaCppEngine({ http, turnMs });
  if (kind === "vllm") return createVllmEngine({ http, turnMs, model: spec.model });
  throw new RolloutError("backend_invalid", "a scripted engine is not reached by url");
}

interface Choice {
  renderer: Renderer;
  notes: readonly string[];
}

/** Local when a tokenizer folder is given and renders what the server renders; else the server's own routes. */
async function chooseRenderer(
  spec: BackendSpec,
  engine: Engine,
  renderers: LocalRenderers,
  signal: AbortSignal,
): Promise<Choice> {
  if (spec.tokenizer === null) return { renderer: await engine.remoteRenderer(signal), notes: [] };
  const local = await renderers.open(spec.tokenizer);
  let remote: Renderer;
  try {
    remote = await engine.remoteRenderer(signal);
  } catch (error) {
    if (!(error instanceof RolloutError) || error.reason !== "backend_invalid") throw error;
    const note = `local rendering was not compared with the server's, which it does not offer: ${error.detail}`;
    return { renderer: local, notes: [note] };
  }
  const difference = await compareRenderers(local, remote);
  if (difference === null) return { renderer: local, notes: [] };
  return {
    renderer: remote,
    notes: [`rendered by the server, since ${spec.tokenizer} renders otherwise: ${difference}`],
  };
}
