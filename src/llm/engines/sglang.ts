import { LLM_LIMITS } from "../../limits.ts";
import type { VersionSpan } from "../../trajectory/turn.ts";
import type { BackendProfile, Completion, CompletionRequest, Engine } from "../engine.ts";
import { faultOfStatus, invalid } from "../fault.ts";
import { type Http, parse } from "../http.ts";
import { probeSglang } from "../probe-sglang.ts";
import { abortingById } from "./abort.ts";
import { GenerateAnswer, samplingParams } from "./sglang-api.ts";
import { completionOf, namedSpans, newStreamedTurn, type StreamedTurn } from "./streamed-turn.ts";

const ENDPOINT = "/generate";
const WHAT = `POST ${ENDPOINT}`;

export interface SglangOptions {
  http: Http;
  /** Bound of one turn, ms. */
  turnMs: number;
}

/**
 * SGLang's `/generate` by ids, streamed so that a disconnect ends the turn. It renders no chat template by ids, so a
 * backend of this kind needs a tokenizer folder.
 */
export function createSglangEngine(options: SglangOptions): Engine {
  const { http } = options;
  let profile: BackendProfile | null = null;
  const probe = async (signal: AbortSignal) => {
    profile = await probeSglang(http, signal);
    return profile;
  };
  return {
    kind: "sglang",
    probe,
    complete: async (request, signal) => complete(options, profile ?? (await probe(signal)), request, signal),
    healthy: (signal) =>
      http.text({ method: "GET", path: "/health", ms: LLM_LIMITS.controlMs, signal }).then(
        (answer) => answer.status === 200,
        () => false,
      ),
    remoteRenderer: () =>
      Promise.reject(invalid("GET /model_info", "SGLang renders no prompts by ids: name the model's tokenizer folder")),
  };
}

async function complete(
  { http, turnMs }: SglangOptions,
  profile: BackendProfile,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<Completion> {
  const start = performance.now();
  const turn = newStreamedTurn();
  const told = new Set<string>();
  const abort = { http, route: profile.abort, requestId: request.requestId, body: (rid: string) => ({ rid }) };
  await abortingById(abort, () =>
    http.events({ path: ENDPOINT, ms: turnMs, signal, body: requestBody(profile, request) }, (data) => {
      turn.firstTokenMs ??= performance.now() - start;
      const version = take(turn, parse(GenerateAnswer, data, WHAT));
      if (version !== null) told.add(version);
    }),
  );
  turn.versions = spans(told, turn.ids.length, request.cacheSalt);
  return completionOf(turn, { endpoint: ENDPOINT, generationMs: performance.now() - start });
}

function requestBody(profile: BackendProfile, request: CompletionRequest): Record<string, unknown> {
  const sampling_params = samplingParams(request.sampling, request.stopTokenIds);
  const { streamIntervalTokens } = LLM_LIMITS;
  return {
    rid: request.requestId,
    input_ids: Array.from(request.ids),
    sampling_params: profile.streamInterval
      ? { ...sampling_params, stream_interval: streamIntervalTokens }
      : sampling_params,
    return_logprob: true,
    logprob_start_len: -1,
    top_logprobs_num: 0,
    return_text_in_logprobs: false,
    // Keeps apart what the cache holds of other weights, as `cache_salt` does elsewhere.
    extra_key: request.cacheSalt,
    stream: true,
  };
}

/**
 * Adds what an event brought, and gives the version it tells. Ids and log-probs come whole each time, or only the new
 * ones where the server runs with `--stream-output`: what begins with all that is known is the whole.
 */
function take(turn: StreamedTurn, answer: GenerateAnswer): string | null {
  // Only what is wrong with a request is told this way.
  if (answer.error !== undefined) throw faultOfStatus(400, JSON.stringify({ error: answer.error }), WHAT);
  const meta = answer.meta_info;
  const entries = meta?.output_token_logprobs ?? [];
  const ids = entries.map(([, id]) => id);
  const isWhole = ids.length >= turn.ids.length && turn.ids.every((id, index) => ids[index] === id);
  const isCounted = meta?.completion_tokens === ids.length;
  const known = isWhole && (isCounted || meta?.completion_tokens == null) ? turn.ids.length : 0;
  for (const [logprob, id] of entries.slice(known)) {
    turn.ids.push(id);
    turn.logprobs.push(logprob ?? Number.NaN);
  }
  checkIds(turn, answer);
  const finish = meta?.finish_reason;
  if (finish) {
    const status = finish.status_code ?? 0;
    if (status === 400 || status >= 500) throw faultOfStatus(status, finish.message ?? "", WHAT);
    turn.finish = finish.type;
    turn.stopReason = Array.isArray(finish.matched) ? (finish.matched.at(-1) ?? null) : (finish.matched ?? null);
  }
  turn.cachedTokens = meta?.cached_tokens ?? turn.cachedTokens;
  return meta?.weight_version ?? null;
}

/** The server counts tokens, and gives ids beside those of the log-probs: all must be of one mind. */
function checkIds(turn: StreamedTurn, { output_ids: told, meta_info: meta }: GenerateAnswer): void {
  const counted = meta?.completion_tokens ?? turn.ids.length;
  if (counted !== turn.ids.length) throw invalid(WHAT, `${turn.ids.length} log-probs but ${counted} tokens counted`);
  const last = told?.at(-1);
  if (last !== undefined && last !== turn.ids.at(-1)) {
    throw invalid(WHAT, `a log-prob of id ${turn.ids.at(-1)} where id ${last} was sampled`);
  }
}

/** The server tells one version for all of an answer, so a turn that saw two cannot be told apart by tokens. */
function spans(told: ReadonlySet<string>, ids: number, sentFor: string): VersionSpan[] {
  const [version, other] = told;
  if (version === undefined || ids === 0) return [];
  if (other !== undefined) {
    throw invalid(WHAT, `weights changed from ${version} to ${other} within the turn, and it does not tell where`);
  }
  return namedSpans([{ version, start: 0, end: ids }], sentFor);
}
