/** Below this two log-probs are too close to tell how temperature changed their difference. */
const DIFFERENCE_MIN = 0.05;

/**
 * Whether log-probs are those of the sampler: temperature 0.5 doubles the differences between processed ones and
 * leaves raw ones as they are. Takes the log-probs of the likeliest tokens after one prompt, each at both
 * temperatures; null where they cannot tell.
 */
export function modeOfLogprobs(plain: readonly number[], sharp: readonly number[]): "raw" | "processed" | null {
  const [before, after] = [topDifference(plain), topDifference(sharp)];
  if (before === null || after === null || before < DIFFERENCE_MIN) return null;
  return after / before > 1.5 ? "processed" : "raw";
}

/** The top two are the same tokens at both temperatures; the sampled one may stand anywhere below. */
function topDifference(values: readonly number[]): number | null {
  const [first, second] = [...values].sort((a, b) => b - a);
  return first === undefined || second === undefined ? null : first - second;
}
