import { REASONS, type Reason } from "../errors.ts";
import { LIMITS } from "../limits.ts";

/** What was already tried. Restarts of the server do not count as attempts. */
export interface Tries {
  /** Attempts ended so far for reasons that count, this one included. */
  counted: number;
  attemptsMax: number;
}

/** Null when the end is final, else how long to wait before the next attempt, ms. */
export function retryDelayMs(reason: Reason, tries: Tries): number | null {
  const rule = REASONS[reason].retry;
  if (rule === "never") return null;
  if (rule === "always") return 0;
  const triesMax = rule === "once" ? Math.min(2, tries.attemptsMax) : tries.attemptsMax;
  if (tries.counted >= triesMax) return null;
  return Math.min(LIMITS.retryDelayMs * 2 ** (tries.counted - 1), LIMITS.retryDelayMaxMs);
}
