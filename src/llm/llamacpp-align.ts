/** llama.cpp's answers list log-probs only where the text is whole: a token inside a character has none. */

/** One entry of `completion_probabilities`. */
export interface TokenProbability {
  id: number;
  logprob: number;
}

/**
 * The log-prob of each id, null where the answer has none for it. Entries come in the order of the ids with some left
 * out. Where an entry could belong to more than one position, every one of them is null: nothing is guessed.
 * Null for the whole when the entries are no such subsequence.
 */
export function alignProbabilities(
  ids: readonly number[],
  entries: readonly TokenProbability[],
): (number | null)[] | null {
  const first = leftmost(ids, entries);
  const last = leftmost([...ids].reverse(), [...entries].reverse())
    ?.map((at) => ids.length - 1 - at)
    .reverse();
  if (first === null || last === undefined) return null;
  const aligned: (number | null)[] = Array.from(ids, () => null);
  for (const [index, entry] of entries.entries()) {
    const at = first[index];
    if (at !== undefined && at === last[index]) aligned[at] = entry.logprob;
  }
  return aligned;
}

function leftmost(ids: readonly number[], entries: readonly TokenProbability[]): number[] | null {
  const places: number[] = [];
  let at = 0;
  for (const entry of entries) {
    while (at < ids.length && ids[at] !== entry.id) at += 1;
    if (at >= ids.length) return null;
    places.push(at);
    at += 1;
  }
  return places;
}
