import { LLM_LIMITS } from "../../limits.ts";
import { TemplateRenderer } from "../../tokens/template-renderer.ts";
import type { BackendProfile, Completion, CompletionRequest, Engine } from "../engine.ts";
import type { Http } from "../http.ts";
import { probeVllm } from "../probe-vllm.ts";
import { openVllmSource } from "../remote-vllm.ts";
import { abortingById } from "./abort.ts";
import { completionOf, newStreamedTurn } from "./streamed-turn.ts";
import { completionsDialect } from "./vllm-completions.ts";
import { generateDialect } from "./vllm-generate.ts";

export interface VllmOptions {
  http: Http;
  /** Bound of one turn, ms. */
  turnMs: number;
  /** Name of the model to ask for; null takes the first the server lists. */
  model: string | null;
  /** Keeps to `/v1/completions`, whatever else the server has. */
  completionsOnly?: boolean;
}

/**
 * vLLM with token prompts, on the route that its probe chose: `/inference/v1/generate` where it tells the version of
 * each token's weights, else `/v1/completions`. Streamed in two chunks: so a disconnect ends the request at once, and
 * the first token's time is known, at the price of an answer that is not streamed.
 */
export function createVllmEngine(options: VllmOptions): Engine {
  const { http } = options;
  const wanted = { model: options.model, completionsOnly: options.completionsOnly ?? false };
  let profile: BackendProfile | null = null;
  const probed = async (signal: AbortSignal) => {
    profile ??= await probeVllm(http, wanted, signal);
    return profile;
  };
  return {
    kind: "vllm",
    async probe(signal) {
      profile = await probeVllm(http, wanted, signal);
      return profile;
    },
    complete: async (request, signal) => complete(options, await probed(signal), request, signal),
    healthy: (signal) =>
      http.text({ method: "GET", path: "/health", ms: LLM_LIMITS.controlMs, signal }).then(
        (answer) => answer.status === 200,
        () => false,
      ),
    remoteRenderer: async (signal) =>
      new TemplateRenderer(await openVllmSource(http, (await probed(signal)).model, signal)),
  };
}

async function complete(
  { http, turnMs }: VllmOptions,
  profile: BackendProfile,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<Completion> {
  const start = performance.now();
  const dialect = profile.endpoint === generateDialect.endpoint ? generateDialect : completionsDialect;
  const turn = newStreamedTurn();
  await abortingById({ http, route: profile.abort, requestId: request.requestId }, () =>
    http.events(
      {
        path: dialect.endpoint,
        ms: turnMs,
        signal,
        headers: { "X-Request-Id": request.requestId, "X-Session-ID": request.sessionId },
        body: dialect.body(profile.model, request),
      },
      (data) => {
        turn.firstTokenMs ??= performance.now() - start;
        dialect.take(turn, data, request);
      },
    ),
  );
  return completionOf(turn, { endpoint: dialect.endpoint, generationMs: performance.now() - start });
}
