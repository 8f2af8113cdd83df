/** Which backend a job goes to. Pure: state comes in, a choice goes out. */

export interface Candidate {
  id: string;
  healthy: boolean;
  /** Tokens that the jobs stuck to it have reserved. */
  reservedTokens: number;
  /** Tokens its cache holds; null where it does not tell. */
  kvTokens: number | null;
  weight: number;
  /** Turns in flight beyond what it works on at once; 0 where it does not tell. */
  queued: number;
  /** Rises with every choice; the backend chosen longest ago has the smallest. */
  chosenAt: number;
}

/** The share of a backend's capacity that is spoken for. Where no capacity is told, all have the same. */
export function loadOf(candidate: Candidate, kvTokensDefault: number): number {
  return candidate.reservedTokens / ((candidate.kvTokens ?? kvTokensDefault) * candidate.weight);
}

/**
 * The healthy backend that stays least loaded when `tokens` more are reserved on it; ties go to the one chosen longest
 * ago. Null when none is healthy. Only what is reserved now counts, so one that joins late gets no backlog of turns.
 */
export function choose(candidates: readonly Candidate[], tokens: number): string | null {
  const healthy = candidates.filter((candidate) => candidate.healthy);
  const scale = kvDefault(healthy);
  let best: { candidate: Candidate; load: number } | null = null;
  for (const candidate of healthy) {
    const load = loadOf({ ...candidate, reservedTokens: candidate.reservedTokens + tokens }, scale);
    if (best === null || load < best.load || (load === best.load && candidate.chosenAt < best.candidate.chosenAt)) {
      best = { candidate, load };
    }
  }
  return best?.candidate.id ?? null;
}

/**
 * Whether a job leaves the backend it sticks to, and with it its cached prefix: when that one is not healthy, or when
 * turns queue there and its load exceeds the least by more than `margin`.
 */
export function shouldLeave(pinned: string, candidates: readonly Candidate[], margin: number): boolean {
  const own = candidates.find((candidate) => candidate.id === pinned);
  if (own === undefined || !own.healthy) return true;
  if (own.queued === 0) return false;
  const healthy = candidates.filter((candidate) => candidate.healthy);
  const scale = kvDefault(healthy);
  const least = Math.min(...healthy.map((candidate) => loadOf(candidate, scale)));
  return loadOf(own, scale) > least + margin;
}

/** Capacity assumed where no backend of a model tells its own: then all are equal and only ratios count. */
const KV_TOKENS_GUESS = 131_072;

/** Backends that do not tell their capacity count as the largest that does. */
function kvDefault(candidates: readonly Candidate[]): number {
  const told = candidates.flatMap(({ kvTokens }) => (kvTokens === null ? [] : [kvTokens]));
  return told.length === 0 ? KV_TOKENS_GUESS : Math.max(...told);
}
