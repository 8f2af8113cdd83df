import { type FakeOptions, type FakeServer, goneAway } from "./fake-model.ts";

export interface FakeChatOptions extends FakeOptions {
  /** Members of the message beside its content, such as calls. */
  message?: Record<string, unknown>;
  /** What the server refuses: log-probs, or a name of the bound. */
  refuses?: readonly string[];
  unix?: string;
}

interface Body {
  messages: { role: string; content: string }[];
  max_tokens?: number;
  max_completion_tokens?: number;
  logprobs?: boolean;
}

/** A server with the chat API alone. Its tokens are characters. */
export function startFakeChat(options: FakeChatOptions = {}): FakeServer {
  const bodies: Record<string, unknown>[] = [];
  const headers: Headers[] = [];
  let inFlight = 0;
  let disconnects = 0;
  const handler = async (request: Request): Promise<Response> => {
    const path = new URL(request.url).pathname;
    if (path === "/v1/models") {
      const max_model_len = options.contextTokens ?? 4_096;
      return Response.json({ data: [{ id: options.model ?? "fake", max_model_len }] });
    }
    if (path !== "/v1/chat/completions") return Response.json({ error: { message: "Not Found" } }, { status: 404 });
    const body = (await request.json()) as Body;
    const refused = options.refuses?.find((name) => name in body);
    if (refused !== undefined) {
      return Response.json({ error: { message: `Unsupported parameter: '${refused}'` } }, { status: 400 });
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
      if (fault === "error500") return Response.json({ error: { message: "Internal" } }, { status: 500 });
      if (fault === "overload") return new Response("busy", { status: 503 });
      if (fault === "garbage") return Response.json({ choices: [] });
      return answer(options, body);
    } finally {
      inFlight -= 1;
    }
  };
  const server =
    options.unix === undefined
      ? Bun.serve({ hostname: "127.0.0.1", port: 0, idleTimeout: 0, development: false, fetch: handler })
      : Bun.serve({ unix: options.unix, fetch: handler });
  return {
    url: options.unix === undefined ? `http://127.0.0.1:${server.port}` : `unix:${options.unix}`,
    bodies,
    headers,
    inFlight: () => inFlight,
    disconnects: () => disconnects,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

function answer(options: FakeChatOptions, body: Body): Response {
  const text = (options.script ?? (() => "Hi 😀 there."))(body.messages.at(-1)?.content ?? "");
  const characters = Array.from(text);
  const said = characters.slice(0, body.max_tokens ?? body.max_completion_tokens);
  const content = said.map((token, at) => ({ token, logprob: -(at + 1) / 8, bytes: [...Buffer.from(token)] }));
  return Response.json({
    id: "chatcmpl-1",
    object: "chat.completion",
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: said.join(""), ...options.message },
        finish_reason: said.length < characters.length ? "length" : "stop",
        logprobs: body.logprobs ? { content } : null,
      },
    ],
    usage: { prompt_tokens: 1, completion_tokens: said.length, prompt_tokens_details: { cached_tokens: 2 } },
  });
}
