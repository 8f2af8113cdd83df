import { createHash } from "node:crypto";
import { z } from "zod";
import { RolloutError } from "../../errors.ts";
import { LLM_LIMITS } from "../../limits.ts";
import { DEFAULT_SAMPLING } from "../../trajectory/sampling.ts";
import type { FinishReason } from "../../trajectory/turn.ts";
import type { BackendProfile, Completion, CompletionRequest, Engine } from "../engine.ts";
import { invalid } from "../fault.ts";
import type { Http } from "../http.ts";
import { samplingBody } from "./vllm-dialect.ts";

const ENDPOINT = "/generate";
const WHAT = `POST ${ENDPOINT}`;

const Answer = z.looseObject({
  response_ids: z.array(z.int()),
  /** Null where it is not finite. */
  logprobs: z.array(z.number().nullable()),
});

export interface ProrlOptions {
  http: Http;
  /** Bound of one turn, ms. */
  turnMs: number;
  /** The server has no name for its model, so one is needed. */
  model: string | null;
  /** Its context, tokens, from the model's folder; null assumes little. */
  contextTokensMax: number | null;
}

/**
 * The one route of ProRL's trainer: ids in, ids and log-probs out, and nothing else. It tells neither its model nor
 * its context nor why a turn ended; a backend of this kind is registered with a model's name and a tokenizer folder.
 */
export function createProrlEngine(options: ProrlOptions): Engine {
  const { http } = options;
  return {
    kind: "prorl",
    probe: (signal) => probe(options, signal),
    complete: (request, signal) => complete(options, request, signal),
    // Any answer will do: the server has no route for this, and a 404 also comes from one that lives.
    healthy: (signal) =>
      http.text({ method: "GET", path: "/health", ms: LLM_LIMITS.controlMs, signal }).then(
        (answer) => answer.status < 500,
        () => false,
      ),
    remoteRenderer: () =>
      Promise.reject(invalid(WHAT, "ProRL's trainer renders no prompts: name the model's tokenizer folder")),
  };
}

async function probe(options: ProrlOptions, signal: AbortSignal): Promise<BackendProfile> {
  const sampling = { ...DEFAULT_SAMPLING, temperature: 0, maxTokens: 1 };
  const body = { prompt_ids: [1, 2], ...paramsOf({ sampling, stopTokenIds: [] }) };
  const answer = await options.http.json(Answer, { path: ENDPOINT, ms: LLM_LIMITS.probeMs, signal, body });
  checkAnswer(answer);
  if (answer.logprobs.some((value) => value === null)) throw invalid(WHAT, "a log-prob in the probe is not finite");
  if (options.model === null) throw invalid(WHAT, "the server does not name its model: register it with one");
  return {
    kind: "prorl",
    version: null,
    model: options.model,
    contextTokensMax: options.contextTokensMax ?? LLM_LIMITS.contextTokensGuess,
    slots: null,
    kvTokens: null,
    // The trainer starts its vLLM with processed_logprobs, and an answer has no second log-prob to tell by.
    logprobsMode: "processed",
    renderer: "remote",
    endpoint: ENDPOINT,
    tokenExact: true,
    tellsVersions: false,
    abort: null,
    weights: null,
    streamInterval: false,
    devMode: null,
    notes: [
      options.contextTokensMax === null
        ? `neither the server nor config.json in the tokenizer folder tells the context; ${LLM_LIMITS.contextTokensGuess} tokens are assumed`
        : "the server does not tell its context; it is taken from config.json in the tokenizer folder",
      "the server does not tell whether log-probs are raw or processed; processed is its default and is assumed",
      "a turn that ends neither at a stop id nor at its bound counts as cut",
    ],
    weightsIdentity: createHash("sha256")
      .update(JSON.stringify(["prorl", options.model]))
      .digest("hex"),
  };
}

async function complete(
  { http, turnMs }: ProrlOptions,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<Completion> {
  const start = performance.now();
  const body = { prompt_ids: Array.from(request.ids), ...paramsOf(request) };
  const answer = await http.json(Answer, { path: ENDPOINT, ms: turnMs, signal, body });
  checkAnswer(answer);
  const { response_ids: ids, logprobs } = answer;
  return {
    ids: Int32Array.from(ids),
    logprobs: Float32Array.from(logprobs.map((value) => value ?? Number.NaN)),
    finishReason: finishOf(ids, request),
    stopReason: null,
    versions: [],
    cachedTokens: null,
    firstTokenMs: null,
    generationMs: performance.now() - start,
    endpoint: ENDPOINT,
  };
}

/** The fields of vLLM's SamplingParams. Only the given ids end a turn: an end id of the server's own would look like a cut. */
function paramsOf(request: Pick<CompletionRequest, "sampling" | "stopTokenIds">): Record<string, unknown> {
  if (request.sampling.stop.length > 0) {
    throw new RolloutError("backend_invalid", `${WHAT}: it does not tell that a stop string ended a turn: send none`);
  }
  const { logprobs: _, ...params } = samplingBody(request);
  // The server sets logprobs itself and refuses to be told twice.
  return { ...params, ignore_eos: true };
}

function finishOf(ids: readonly number[], request: CompletionRequest): FinishReason {
  if (request.stopTokenIds.includes(ids.at(-1) ?? -1)) return "stop";
  return ids.length >= request.sampling.maxTokens ? "length" : "abort";
}

function checkAnswer({ response_ids: ids, logprobs }: z.infer<typeof Answer>): void {
  if (ids.length === logprobs.length) return;
  throw invalid(WHAT, `${ids.length} ids but ${logprobs.length} log-probs`);
}
