import {
  cutConnection,
  type FakeFault,
  type FakeOptions,
  type FakeServer,
  fakeLogprob,
  fakeTurn,
  goneAway,
} from "./fake-model.ts";

export interface FakeSglangOptions extends FakeOptions {
  /** As without SGLANG_RETURN_ORIGINAL_LOGPROB, which is the default there. */
  logprobsMode?: "raw" | "processed";
  /** As with `--stream-output`: ids and log-probs of an event are only the new ones. */
  deltas?: boolean;
  /** A server that knows no `stream_interval` refuses it. */
  old?: boolean;
  /** The version that the nth event of an answer tells. */
  version?: (event: number) => string;
}

export interface FakeSglang extends FakeServer {
  /** Ids that were to be aborted. */
  aborted: string[];
}

interface Body {
  rid?: string;
  input_ids: number[];
  stream: boolean;
  sampling_params: {
    max_new_tokens: number;
    temperature: number;
    stop_token_ids: number[];
    stream_interval?: number;
  };
}

/** A server with SGLang's `/generate` (shapes of 0.5) over a tokenizer of bytes. */
export function startFakeSglang(options: FakeSglangOptions = {}): FakeSglang {
  const bodies: Record<string, unknown>[] = [];
  const headers: Headers[] = [];
  const aborted: string[] = [];
  let inFlight = 0;
  let disconnects = 0;
  const prefix = options.old ? "/get_" : "/";
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    async fetch(request) {
      const path = new URL(request.url).pathname;
      if (path === "/health") return new Response("");
      if (path === `${prefix}model_info`) return Response.json(modelInfo(options));
      if (path === `${prefix}server_info`) return Response.json(serverInfo(options));
      if (path === "/abort_request") {
        aborted.push(((await request.json()) as { rid: string }).rid);
        return new Response("");
      }
      if (path !== "/generate") return Response.json({ detail: "Not Found" }, { status: 404 });
      const body = (await request.json()) as Body;
      if (options.old && body.sampling_params.stream_interval !== undefined) {
        const message = "Unexpected keyword argument 'stream_interval'";
        return Response.json({ error: { message } }, { status: 400 });
      }
      const fault = options.fault?.(bodies.length, { ...body }) ?? null;
      bodies.push({ ...body });
      headers.push(request.headers);
      inFlight += 1;
      void goneAway(request).then(() => {
        disconnects += 1;
      });
      try {
        if (fault === "hang") {
          await goneAway(request);
          return new Response(null, { status: 499 });
        }
        return answer(options, body, fault);
      } finally {
        inFlight -= 1;
      }
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    bodies,
    headers,
    aborted,
    inFlight: () => inFlight,
    disconnects: () => disconnects,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

function modelInfo(options: FakeSglangOptions) {
  return { model_path: `./${options.model ?? "fake"}-${options.size ?? 1}`, weight_version: "default" };
}

function serverInfo(options: FakeSglangOptions) {
  return {
    version: "0.5.4",
    served_model_name: options.model ?? "fake",
    context_length: options.contextTokens ?? 4_096,
    max_total_num_tokens: 65_536,
    max_running_requests: 16,
  };
}

function answer(options: FakeSglangOptions, body: Body, fault: FakeFault): Response {
  if (fault === "die") return cutConnection();
  if (fault === "error500") return Response.json({ error: { message: "Internal Server Error" } }, { status: 500 });
  if (fault === "overload") return new Response("busy", { status: 503 });
  if (body.input_ids.length > (options.contextTokens ?? 4_096)) {
    const message = `The input (${body.input_ids.length} tokens) is longer than the model's context length.`;
    return events([JSON.stringify({ error: { message } })]);
  }
  const params = body.sampling_params;
  const all = fakeTurn(options, body.input_ids);
  const stopAt = all.findIndex((id) => params.stop_token_ids.includes(id));
  const ended = stopAt < 0 ? all : all.slice(0, stopAt + 1);
  const ids = ended.slice(0, params.max_new_tokens);
  const isStop = ids.length === ended.length;
  const finish = isStop ? { type: "stop", matched: ids.at(-1) } : { type: "length", length: ids.length };
  const sharp = options.logprobsMode !== "raw" && params.temperature > 0 ? 1 / params.temperature : 1;
  const entries = ids.map((id, at): [number | null, number, null] => [
    fault === "nan" ? null : fakeLogprob(id, body.input_ids.length + at),
    id,
    null,
  ]);
  const event = (from: number, to: number, at: number) => ({
    text: "",
    output_ids: ids.slice(from, to),
    meta_info: {
      id: body.rid ?? "1",
      finish_reason: to === ids.length && fault !== "abort" ? finish : null,
      prompt_tokens: body.input_ids.length,
      completion_tokens: to,
      cached_tokens: 3,
      weight_version: options.version?.(at) ?? "default",
      output_token_logprobs: entries.slice(fault === "lengths" ? from + 1 : from, to),
      output_top_logprobs: ids.slice(from, to).map(() => [1, 2, 3].map((nth) => [-nth * sharp, nth, null])),
    },
  });
  if (!body.stream) return Response.json(event(0, ids.length, 0));
  const first = Math.min(1, ids.length);
  const pieces = [event(0, first, 0), event(options.deltas ? first : 0, ids.length, 1)];
  const sent = fault === "abort" || ids.length === 1 ? pieces.slice(0, 1) : pieces;
  return events([...(fault === "garbage" ? ["<html>"] : []), ...sent.map((piece) => JSON.stringify(piece)), "[DONE]"]);
}

function events(lines: readonly string[]): Response {
  return new Response(lines.map((line) => `data: ${line}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream" },
  });
}
