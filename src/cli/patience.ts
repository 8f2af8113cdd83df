import type { Clock } from "../clock.ts";
import { UnreachableError } from "./api-client.ts";

/** Pauses between the tries, ms: a server that is restarted is back within them. */
const PAUSES_MS = [500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000] as const;

/** Asks again while the server cannot be reached, a bounded number of times; says so on stderr. */
export async function askPatiently<T>(clock: Clock, ask: () => Promise<T>): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof UnreachableError)) throw error;
      console.error(`the server does not answer; asking again in ${pauseMs / 1_000} s`);
    }
    await clock.sleep(pauseMs);
  }
  return ask();
}
