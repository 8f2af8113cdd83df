import { LLM_LIMITS } from "../../limits.ts";
import type { BackendProfile } from "../engine.ts";
import type { Http } from "../http.ts";

export interface AbortableTurn {
  http: Http;
  /** How the server ends a turn by its id; null when only hanging up does. */
  route: BackendProfile["abort"];
  requestId: string;
  /** What the route takes; vLLM's `{"request_ids": [id]}` where it is left out. */
  body?: (id: string) => Record<string, unknown>;
}

/**
 * `work`, whose turn is also ended by its id when it fails in any way: a proxy between us and the server may not pass
 * on that we hung up. The rejection waits for the server's answer, but no longer than `LLM_LIMITS.abortMs`.
 */
export async function abortingById<T>(turn: AbortableTurn, work: () => Promise<T>): Promise<T> {
  const { http, route, requestId } = turn;
  try {
    return await work();
  } catch (error) {
    if (route !== null) {
      const id = route.id.replace("{id}", requestId);
      const body = turn.body?.(id) ?? { request_ids: [id] };
      const signal = new AbortController().signal;
      // What the turn failed with is the cause to tell; a server that is gone has nothing left to end.
      await http.text({ path: route.route, ms: LLM_LIMITS.abortMs, signal, body }).catch(() => null);
    }
    throw error;
  }
}
