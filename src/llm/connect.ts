import type { Clock } from "../clock.ts";
import { RequestError, RolloutError } from "../errors.ts";
import type { LocalRenderers } from "../tokens/local-renderers.ts";
import type { Renderer } from "../tokens/renderer.ts";
import type { BackendSpec } from "./backends.ts";
import { detectKind } from "./detect.ts";
import type { BackendProfile, Engine, EngineKind } from "./engine.ts";
import { createChatEngine } from "./engines/chat.ts";
import { createChatClient, rootOf } from "./engines/chat-client.ts";
import { createLlamaCppEngine } from "./engines/llamacpp.ts";
import { createProrlEngine } from "./engines/prorl.ts";
import { createReplayEngine } from "./engines/replay.ts";
import { createSglangEngine } from "./engines/sglang.ts";
import { createVllmEngine } from "./engines/vllm.ts";
import { createHttp, parseAddress } from "./http.ts";
import { contextOfFolder } from "./model-folder.ts";
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
  if (options.engineFor(spec) !== null || parseAddress(spec.url) !== null || replayPath(spec.url) !== null) return;
  const accepted = "http://host:port, unix:/path, or replay:/path of recorded trajectories";
  const fault = { path: "url", message: `${spec.url} is no url`, accepted };
  throw new RequestError("field_invalid", `${fault.message}; accepted: ${fault.accepted}`, [fault]);
}

/** Finds out what the server is and can do, and who renders for it. Throws RolloutError backend_* when it cannot serve. */
export async function connect(spec: BackendSpec, options: ConnectOptions, signal: AbortSignal): Promise<Connection> {
  const engine = options.engineFor(spec) ?? (await engineOf(spec, options, signal));
  const profile = await engine.probe(signal);
  if (spec.model !== null && spec.model !== profile.model && !SERVE_ANY_NAME.includes(engine.kind)) {
    throw new RolloutError("backend_invalid", `the server has ${profile.model}, not ${spec.model}`);
  }
  const named = spec.model === null ? profile : { ...profile, model: spec.model };
  // Ids of text are the engine's own, so no tokenizer of a model can render for it.
  const tokenizer = profile.tokenExact ? spec.tokenizer : null;
  const { renderer, notes } = await chooseRenderer({ engine, tokenizer }, options.renderers, signal);
  return { engine, renderer, profile: { ...named, renderer: renderer.kind, notes: [...profile.notes, ...notes] } };
}

/** These have one model whatever it is called, so the name given at registration stands. */
const SERVE_ANY_NAME: readonly EngineKind[] = ["llamacpp", "replay"];

async function engineOf(spec: BackendSpec, options: ConnectOptions, signal: AbortSignal): Promise<Engine> {
  const { clock, turnMs } = options;
  const path = replayPath(spec.url);
  if (path !== null) return createReplayEngine({ clock, path });
  const address = parseAddress(spec.url);
  if (address === null) throw new RolloutError("backend_unreachable", `${spec.url} is no url`);
  const http = createHttp(address, spec.apiKey, clock);
  const { model } = spec;
  const kind = spec.kind === "auto" ? await detectKind(http, signal) : spec.kind;
  switch (kind) {
    case "llamacpp":
      return createLlamaCppEngine({ http, turnMs });
    case "vllm":
      return createVllmEngine({ http, turnMs, model });
    case "sglang":
      return createSglangEngine({ http, turnMs });
    case "prorl": {
      const contextTokensMax = spec.tokenizer === null ? null : await contextOfFolder(spec.tokenizer);
      return createProrlEngine({ http, turnMs, model, contextTokensMax });
    }
    case "chat": {
      const root = { ...address, base: rootOf(address.base) };
      const client = createChatClient(address, spec.apiKey, clock);
      return createChatEngine({ client, http: createHttp(root, spec.apiKey, clock), turnMs, model });
    }
    case "scripted":
    case "replay":
      throw new RolloutError("backend_invalid", `a ${kind} engine is not reached at ${spec.url}`);
  }
}

/** The file of a `replay:/path`; null for other urls. */
function replayPath(url: string): string | null {
  return url.startsWith("replay:/") ? url.slice("replay:".length) : null;
}

interface Choice {
  renderer: Renderer;
  notes: readonly string[];
}

/** Local when a tokenizer folder is given and renders what the server renders; else the server's own routes. */
async function chooseRenderer(
  { engine, tokenizer }: { engine: Engine; tokenizer: string | null },
  renderers: LocalRenderers,
  signal: AbortSignal,
): Promise<Choice> {
  if (tokenizer === null) return { renderer: await engine.remoteRenderer(signal), notes: [] };
  const local = await renderers.open(tokenizer);
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
    notes: [`rendered by the server, since ${tokenizer} renders otherwise: ${difference}`],
  };
}
