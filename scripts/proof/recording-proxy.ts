/** What vLLM answered to one request for tokens, as it stood on the wire. */
export interface Recorded {
  prompt: readonly number[];
  ids: number[];
  logprobs: number[];
  finishReason: string | null;
}

/** Stands between rolloutd and a vLLM, passes everything on as it is, and keeps what was answered. */
export interface RecordingProxy extends AsyncDisposable {
  url: string;
  /** By the request id that rolloutd gave. Of a request that broke off there is what came before. */
  answers: ReadonlyMap<string, Recorded>;
}

/** vLLM's routes for tokens. */
const ROUTES: readonly string[] = ["/v1/completions", "/inference/v1/generate"];

/** Starts the proxy on a free port. It reads the event stream by itself, so no fault of rolloutd's reader is repeated. */
export function startRecordingProxy(target: string): RecordingProxy {
  const answers = new Map<string, Recorded>();
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    async fetch(request) {
      const { pathname, search } = new URL(request.url);
      const body = request.method === "GET" ? null : await request.text();
      const response = await fetch(`${target}${pathname}${search}`, {
        method: request.method,
        headers: body === null ? {} : { "content-type": "application/json" },
        body,
        signal: request.signal,
        timeout: false,
        // The server closes idle connections, and a request sent on one that just closes would be lost.
        keepalive: false,
      });
      const recorded = ROUTES.includes(pathname) && body !== null ? begin(answers, body) : null;
      const passed = recorded === null ? response.body : response.body?.pipeThrough(recorder(recorded));
      const type = response.headers.get("content-type");
      return new Response(passed ?? null, {
        status: response.status,
        ...(type === null ? {} : { headers: { "content-type": type } }),
      });
    },
  });
  return {
    url: `http://127.0.0.1:${server.port}`,
    answers,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

/** Null for requests that no turn stands behind, such as a probe's. */
function begin(answers: Map<string, Recorded>, body: string): Recorded | null {
  const { request_id: id, ...ids } = JSON.parse(body) as {
    request_id?: string;
    prompt?: number[];
    token_ids?: number[];
  };
  const prompt = ids.prompt ?? ids.token_ids;
  if (id === undefined || prompt === undefined) return null;
  const recorded: Recorded = { prompt, ids: [], logprobs: [], finishReason: null };
  answers.set(id, recorded);
  return recorded;
}

interface Event {
  choices: {
    token_ids?: number[];
    /** Of the one route, or of the other. */
    logprobs?: { token_logprobs?: number[]; content?: { logprob: number }[] };
    finish_reason?: string | null;
  }[];
}

function recorder(recorded: Recorded): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (!line.startsWith("data: {")) continue;
        for (const choice of (JSON.parse(line.slice("data: ".length)) as Event).choices) {
          recorded.ids.push(...(choice.token_ids ?? []));
          recorded.logprobs.push(...(choice.logprobs?.token_logprobs ?? []));
          recorded.logprobs.push(...(choice.logprobs?.content ?? []).map(({ logprob }) => logprob));
          recorded.finishReason = choice.finish_reason ?? recorded.finishReason;
        }
      }
    },
  });
}
