import { APIConnectionError, APIError, OpenAI } from "openai";
import { type Clock, deadline } from "../../clock.ts";
import { RolloutError } from "../../errors.ts";
import { faultOfStatus, faultOfThrown } from "../fault.ts";
import { type Address, readText } from "../http.ts";

export interface ChatClient {
  /**
   * The answer of `/v1/chat/completions`, not parsed, at most `ms` from now. Throws RolloutError backend_* or
   * context_overflow, or the signal's reason when it aborts. Nothing is sent twice.
   */
  create(body: Record<string, unknown>, options: { ms: number; signal: AbortSignal }): Promise<unknown>;
}

export const CHAT_ENDPOINT = "/v1/chat/completions";
const WHAT = `POST ${CHAT_ENDPOINT}`;

/** A client through the `openai` package. Nothing of it comes from the environment but what it adds to headers. */
export function createChatClient(address: Address, apiKey: string | null, clock: Clock): ChatClient {
  const client = new OpenAI({
    baseURL: `${rootOf(address.base)}/v1`,
    apiKey: apiKey ?? "none",
    ...(apiKey === null ? { defaultHeaders: { authorization: null } } : {}),
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    logLevel: "off",
    // By default it sends a failed request twice more, and a turn would be paid for three times.
    maxRetries: 0,
    fetch: (url, init) => bounded(url instanceof Request ? url.url : url, { ...init, ...transport(address) }),
  });
  return {
    async create(body, { ms, signal }) {
      const late = new RolloutError("backend_timeout", `${WHAT}: no whole answer within ${ms} ms`);
      const limit = deadline(clock, ms, signal, late);
      try {
        limit.signal.throwIfAborted();
        const params = { ...body, stream: false } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;
        return await client.chat.completions.create(params, { signal: limit.signal, timeout: ms });
      } catch (error) {
        if (limit.signal.aborted) throw limit.signal.reason;
        if (error instanceof APIError && !(error instanceof APIConnectionError) && error.status !== undefined) {
          throw faultOfStatus(error.status, JSON.stringify({ error: error.error ?? error.message }), WHAT);
        }
        const cause = error instanceof APIConnectionError ? (error.cause ?? error) : error;
        throw faultOfThrown(cause, limit.signal, WHAT);
      } finally {
        await limit.release();
      }
    },
  };
}

/** The address without the `/v1` that urls of this API often end with. */
export function rootOf(base: string): string {
  return base.replace(/\/v1$/, "");
}

function transport(address: Address): BunFetchRequestInit {
  return {
    ...(address.unix === null ? {} : { unix: address.unix }),
    redirect: "manual",
    timeout: false,
    keepalive: false,
  };
}

/** An answer that is read to its end within the bound of all answers. */
async function bounded(url: string | URL, init: BunFetchRequestInit): Promise<Response> {
  const response = await fetch(url, init);
  const { status, headers } = response;
  return new Response(await readText(response, WHAT), { status, headers });
}
