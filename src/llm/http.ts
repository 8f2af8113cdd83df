import type { z } from "zod";
import { type Clock, deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";
import { faultOfStatus, faultOfThrown, invalid } from "./fault.ts";

/** Where a server is: `http(s)://host:port[/path]`, or a Unix socket. */
export interface Address {
  base: string;
  unix: string | null;
}

/** Reads a backend's url; null when it is none. A trailing slash is dropped. */
export function parseAddress(url: string): Address | null {
  if (url.startsWith("unix:")) {
    const path = url.slice("unix:".length);
    return path.startsWith("/") ? { base: "http://localhost", unix: path } : null;
  }
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol) || parsed.search !== "" || parsed.hash !== "") return null;
  return { base: url.replace(/\/+$/, ""), unix: null };
}

export interface Ask {
  method?: "GET" | "POST";
  path: string;
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
  /** Bound of the whole exchange, ms, the body included. */
  ms: number;
  signal: AbortSignal;
}

/** One server over HTTP. Nothing is sent twice: a second try is its caller's decision, with a new request id. */
export interface Http {
  /** The answer, parsed. Throws RolloutError backend_* or context_overflow, or the signal's reason when it aborts. */
  json<T>(schema: z.ZodType<T>, ask: Ask): Promise<T>;
  /** Status and text, whatever the status is; for probing what a server offers. */
  text(ask: Ask): Promise<{ status: number; body: string }>;
  /** Hands each `data:` payload of an event stream to `onEvent` as it comes, until the stream or `[DONE]` ends it. */
  events(ask: Ask, onEvent: (data: string) => void): Promise<void>;
}

export function createHttp(address: Address, apiKey: string | null, clock: Clock): Http {
  const exchange = async <T>(ask: Ask, read: (response: Response, what: string) => Promise<T>): Promise<T> => {
    const what = `${ask.method ?? "POST"} ${ask.path}`;
    const late = new RolloutError("backend_timeout", `${what}: no whole answer within ${ask.ms} ms`);
    const limit = deadline(clock, ask.ms, ask.signal, late);
    try {
      limit.signal.throwIfAborted();
      const response = await fetch(address.base + ask.path, init(address, apiKey, ask, limit.signal));
      const value = await read(response, what);
      // An abort in the middle of a body may end the reading without an error.
      limit.signal.throwIfAborted();
      return value;
    } catch (error) {
      throw faultOfThrown(error, limit.signal, what);
    } finally {
      await limit.release();
    }
  };
  return {
    json: (schema, ask) =>
      exchange(ask, async (response, what) => {
        const body = await readText(response, what);
        if (!response.ok) throw faultOfStatus(response.status, body, what);
        return parse(schema, body, what);
      }),
    text: (ask) =>
      exchange(ask, async (response, what) => ({ status: response.status, body: await readText(response, what) })),
    events: (ask, onEvent) =>
      exchange(ask, async (response, what) => {
        if (!response.ok) throw faultOfStatus(response.status, await readText(response, what), what);
        await readEvents(response, onEvent, what);
      }),
  };
}

/** Parses an answer's JSON by its schema. Throws RolloutError backend_invalid that names the first fault. */
export function parse<T>(schema: z.ZodType<T>, text: string, what: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw invalid(what, `the answer is not JSON: ${text.slice(0, 100)}`);
  }
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issue = result.error.issues[0];
  throw invalid(what, `unexpected answer: ${issue?.path.join(".") ?? ""} ${issue?.message ?? ""}`);
}

function init(address: Address, apiKey: string | null, ask: Ask, signal: AbortSignal): BunFetchRequestInit {
  return {
    method: ask.method ?? "POST",
    headers: {
      ...(ask.body === undefined ? {} : { "content-type": "application/json" }),
      ...(apiKey === null ? {} : { authorization: `Bearer ${apiKey}` }),
      ...ask.headers,
    },
    ...(ask.body === undefined ? {} : { body: JSON.stringify(ask.body) }),
    ...(address.unix === null ? {} : { unix: address.unix }),
    signal,
    // A redirect would carry the key elsewhere; no LLM server answers with one.
    redirect: "manual",
    // The runtime gives up after five silent minutes, which a long turn may need; the deadline above is the bound.
    timeout: false,
    // Servers close idle connections after 5 s; one that closes while a turn is sent on it would lose that turn.
    keepalive: false,
  };
}

/** The whole body. Throws RolloutError backend_invalid when it is longer than any answer may be. */
export async function readText(response: Response, what: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  await readChunks(response, what, (chunk) => {
    text += decoder.decode(chunk, { stream: true });
  });
  return text + decoder.decode();
}

async function readEvents(response: Response, onEvent: (data: string) => void, what: string): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  await readChunks(response, what, (chunk) => {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice("data:".length).trim();
      if (data !== "[DONE]") onEvent(data);
    }
  });
}

async function readChunks(response: Response, what: string, take: (chunk: Uint8Array) => void): Promise<void> {
  if (response.body === null) return;
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.length;
    if (bytes > LLM_LIMITS.responseBytesMax) throw invalid(what, `more than ${LLM_LIMITS.responseBytesMax} bytes`);
    take(chunk);
  }
}
