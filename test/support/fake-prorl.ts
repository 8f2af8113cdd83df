import { type FakeOptions, type FakeServer, fakeLogprob, fakeTurn, goneAway } from "./fake-model.ts";

interface Body {
  prompt_ids: number[];
  max_tokens: number;
  stop_token_ids?: number[];
}

/** A server with the one route of ProRL's trainer, over a tokenizer of bytes. */
export function startFakeProrl(options: FakeOptions = {}): FakeServer {
  const bodies: Record<string, unknown>[] = [];
  const headers: Headers[] = [];
  let inFlight = 0;
  let disconnects = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    async fetch(request) {
      if (new URL(request.url).pathname !== "/generate" || request.method !== "POST") {
        return Response.json({ detail: "Not Found" }, { status: 404 });
      }
      const body = (await request.json()) as Body;
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
        if (fault === "error500" || "logprobs" in body) return new Response("Internal Server Error", { status: 500 });
        const all = fakeTurn(options, body.prompt_ids);
        const stopAt = all.findIndex((id) => body.stop_token_ids?.includes(id));
        const ids = (stopAt < 0 ? all : all.slice(0, stopAt + 1)).slice(0, body.max_tokens);
        const response_ids = fault === "abort" ? ids.slice(0, 1) : ids;
        const logprobs = response_ids.map((id, at) => fakeLogprob(id, body.prompt_ids.length + at));
        return Response.json({ response_ids, logprobs: fault === "lengths" ? logprobs.slice(1) : logprobs });
      } finally {
        inFlight -= 1;
      }
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    bodies,
    headers,
    inFlight: () => inFlight,
    disconnects: () => disconnects,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}
