import { LLM_LIMITS } from "../limits.ts";
import type { Completion } from "./engine.ts";
import { invalid } from "./fault.ts";

/**
 * What an engine gave, or RolloutError backend_invalid: ids and log-probs have one length, at least 1 (0 only with
 * `abort`) and at most `maxTokens`; ids are whole and in range; log-probs are finite and not above 0. A log-prob that
 * rounding put just above 0 becomes 0.
 */
export function checkCompletion(completion: Completion, maxTokens: number): Completion {
  const { ids, logprobs, finishReason } = completion;
  const what = completion.endpoint;
  if (ids.length !== logprobs.length) throw invalid(what, `${ids.length} ids but ${logprobs.length} log-probs`);
  if (ids.length === 0 && finishReason !== "abort") throw invalid(what, `finished (${finishReason}) without an id`);
  if (ids.length > maxTokens) throw invalid(what, `${ids.length} ids where at most ${maxTokens} were asked for`);
  const outside = ids.find((id) => id < 0 || id > LLM_LIMITS.tokenIdMax);
  if (outside !== undefined) throw invalid(what, `id ${outside} is out of range`);
  const wrong = logprobs.findIndex((value) => !Number.isFinite(value) || value > LLM_LIMITS.logprobRounding);
  if (wrong >= 0) throw invalid(what, `log-prob ${logprobs[wrong]} at position ${wrong}`);
  const end = completion.versions.at(-1)?.end;
  if (end !== undefined && end !== ids.length) throw invalid(what, `versions cover ${end} of ${ids.length} ids`);
  return { ...completion, logprobs: logprobs.map((value) => Math.min(value, 0)) };
}
