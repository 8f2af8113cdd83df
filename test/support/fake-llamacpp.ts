import {
  createScriptedSource,
  decodeScripted,
  encodeScripted,
  SCRIPTED_END_ID,
} from "../../src/llm/engines/scripted-source.ts";
import type { Message, ToolSchema } from "../../src/trajectory/message.ts";
import {
  cutConnection,
  type FakeOptions,
  type FakeServer,
  fakeLogprob,
  fakeTurn,
  goneAway,
  unwrapTools,
} from "./fake-model.ts";

/** A server with llama.cpp's routes and answers, over a tokenizer of bytes. Log-probs are left out inside characters. */
export function startFakeLlamaCpp(options: FakeOptions = {}): FakeServer {
  const bodies: Record<string, unknown>[] = [];
  const headers: Headers[] = [];
  let inFlight = 0;
  let disconnects = 0;
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    idleTimeout: 0,
    development: false,
    routes: {
      "/health": Response.json({ status: "ok" }),
      "/props": Response.json({
        default_generation_settings: { n_ctx: options.contextTokens ?? 4_096 },
        total_slots: 4,
        model_alias: options.model ?? "fake",
        model_ftype: "Q4_1",
        chat_template: "fake",
        eos_token: "<|end|>",
        build_info: "b0-fake",
      }),
      "/v1/models": Response.json({
        object: "list",
        data: [{ id: options.model ?? "fake", owned_by: "llamacpp", meta: { n_vocab: 262, size: options.size ?? 1 } }],
      }),
      "/apply-template": async (request) => {
        const { messages, tools } = (await request.json()) as {
          messages: Message[];
          tools?: { function: ToolSchema }[];
        };
        return Response.json({ prompt: await createScriptedSource().render(messages, unwrapTools(tools)) });
      },
      "/tokenize": async (request) => {
        const body = (await request.json()) as { content: string; parse_special: boolean; with_pieces?: boolean };
        const ids = body.parse_special ? encodeScripted(body.content).ids : [...Buffer.from(body.content)];
        const piece = (id: number) => (id < 128 || id > 255 ? decodeScripted([id], true) : [id]);
        return Response.json({ tokens: body.with_pieces ? ids.map((id) => ({ id, piece: piece(id) })) : ids });
      },
      "/detokenize": async (request) => {
        const { tokens } = (await request.json()) as { tokens: number[] };
        return Response.json({ content: decodeScripted(tokens, true) });
      },
      "/completion": async (request) => {
        const body = (await request.json()) as CompletionBody;
        const fault = options.fault?.(bodies.length, { ...body }) ?? null;
        bodies.push({ ...body });
        headers.push(request.headers);
        inFlight += 1;
        try {
          if (fault === "hang") {
            await goneAway(request);
            disconnects += 1;
            return new Response(null, { status: 500 });
          }
          if (fault === "die") return cutConnection();
          if (fault === "error500") return Response.json({ error: { code: 500, message: "broken" } }, { status: 500 });
          if (fault === "overload") return new Response("busy", { status: 503 });
          if (fault === "garbage") return new Response("<html>");
          return Response.json(spoil(complete(options, body), fault));
        } finally {
          inFlight -= 1;
        }
      },
    },
    fetch: () =>
      Response.json({ error: { message: "File Not Found", type: "not_found_error", code: 404 } }, { status: 404 }),
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

interface CompletionBody {
  prompt: number[];
  n_predict: number;
  n_probs: number;
  stop?: string[];
  logit_bias?: [number, number][];
}

interface Answer {
  tokens: number[];
  completion_probabilities: { id: number; logprob: number; top_logprobs: { id: number; logprob: number }[] }[];
  [key: string]: unknown;
}

function complete(options: FakeOptions, body: CompletionBody): Answer {
  const forced = body.logit_bias?.[0]?.[0];
  const whole = forced === undefined ? fakeTurn(options, body.prompt) : [forced];
  const tokens: number[] = [];
  let stopping = "";
  for (const id of whole.slice(0, body.n_predict)) {
    tokens.push(id);
    stopping = (body.stop ?? []).find((word) => decodeScripted(tokens, true).includes(word)) ?? "";
    if (stopping !== "") break;
  }
  const eos = tokens.at(-1) === SCRIPTED_END_ID;
  const probabilities = tokens.flatMap((id, index) => {
    const at = body.prompt.length + index;
    // The real server reports a token only once the text so far ends in a whole character.
    const text = decodeScripted(tokens.slice(0, index + 1), true);
    if (Buffer.from(text).equals(Buffer.from(text.replace(/\uFFFD+$/, ""))) === false) return [];
    const top = Array.from({ length: Math.min(body.n_probs, 262) }, (_, other) => ({
      id: other,
      logprob: fakeLogprob(other, at),
    }));
    return [{ id, token: "", bytes: [], logprob: fakeLogprob(id, at), top_logprobs: top }];
  });
  return {
    index: 0,
    content: decodeScripted(tokens, true),
    tokens,
    id_slot: 0,
    stop: true,
    stop_type: stopping !== "" ? "word" : eos ? "eos" : "limit",
    stopping_word: stopping,
    truncated: false,
    tokens_predicted: tokens.length,
    tokens_evaluated: body.prompt.length,
    timings: { cache_n: 0, prompt_n: body.prompt.length, prompt_ms: 1, predicted_n: tokens.length, predicted_ms: 1 },
    completion_probabilities: probabilities,
  };
}

function spoil(answer: Answer, fault: string | null): Answer {
  if (fault === "lengths")
    return {
      ...answer,
      completion_probabilities: answer.completion_probabilities.map((entry) => ({ ...entry, id: 1 })),
    };
  if (fault === "nan")
    return {
      ...answer,
      completion_probabilities: answer.completion_probabilities.map((entry) => ({ ...entry, logprob: null as never })),
    };
  if (fault === "abort") return { ...answer, tokens: [], completion_probabilities: [] };
  return answer;
}
