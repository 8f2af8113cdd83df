import { LLM_LIMITS } from "../../limits.ts";
import { invalid } from "../fault.ts";
import type { Http } from "../http.ts";
import { alignProbabilities } from "../llamacpp-align.ts";
import { CompletionAnswer, Tokens } from "./llamacpp-api.ts";

const WHAT = "POST /completion";
/** Added to a logit so that this token is sampled whatever the model wants. */
const FORCE = 1_000_000;

export interface AskContext {
  http: Http;
  ms: number;
  signal: AbortSignal;
}

/**
 * The log-prob of every id of a slice. Positions for which the answer has none are asked again: the same model at
 * the same place, another token forced, and the id's own log-prob read from the list of alternatives (taken from the
 * logits before the force). Throws RolloutError backend_invalid when one cannot be had; none is ever invented.
 */
export async function sliceLogprobs(
  context: AskContext,
  prompt: readonly number[],
  answer: CompletionAnswer,
): Promise<number[]> {
  if (answer.tokens.length === 0) throw invalid(WHAT, "no token came back");
  const entries = answer.completion_probabilities.map(({ id, logprob }) => ({ id, logprob: logprob ?? Number.NaN }));
  const aligned = alignProbabilities(answer.tokens, entries);
  if (aligned === null) throw invalid(WHAT, "log-probs of other ids than those that were sampled");
  const missing = aligned.flatMap((value, index) => (value === null ? [index] : []));
  if (missing.length > LLM_LIMITS.reaskedPositionsMax) throw invalid(WHAT, `${missing.length} ids have no log-prob`);
  const logprobs = aligned.map((value) => value ?? Number.NaN);
  if (missing.length === 0) return logprobs;
  const plain = await plainToken(context);
  for (const index of missing) {
    const before = [...prompt, ...answer.tokens.slice(0, index)];
    logprobs[index] = await logprobAt(context, { before, id: answer.tokens[index] ?? -1, plain });
  }
  return logprobs;
}

interface Place {
  before: readonly number[];
  id: number;
  /** A token whose text is whole, so that the server reports its position. */
  plain: number;
}

async function logprobAt(context: AskContext, place: Place): Promise<number> {
  for (const listed of [LLM_LIMITS.reaskProbsMax, LLM_LIMITS.tokenIdMax]) {
    const answer = await context.http.json(CompletionAnswer, {
      path: "/completion",
      ms: context.ms,
      signal: context.signal,
      body: {
        prompt: place.before,
        n_predict: 1,
        n_probs: listed,
        post_sampling_probs: false,
        return_tokens: true,
        cache_prompt: true,
        stream: false,
        temperature: 0,
        samplers: ["temperature"],
        logit_bias: [[place.plain, FORCE]],
      },
    });
    const position = answer.completion_probabilities[0];
    const found = [position, ...(position?.top_logprobs ?? [])].find((entry) => entry?.id === place.id);
    if (found !== undefined && found.logprob !== null) return found.logprob;
  }
  throw invalid(WHAT, `the log-prob of id ${place.id} cannot be had`);
}

async function plainToken(context: AskContext): Promise<number> {
  const answer = await context.http.json(Tokens, {
    path: "/tokenize",
    ms: LLM_LIMITS.controlMs,
    signal: context.signal,
    body: { content: "a", add_special: false, parse_special: false },
  });
  const id = answer.tokens.at(-1);
  if (id === undefined) throw invalid("POST /tokenize", "no token for a letter");
  return id;
}
