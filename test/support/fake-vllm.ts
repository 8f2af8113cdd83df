import { createScriptedSource, decodeScripted, encodeScripted } from "../../src/llm/engines/scripted-source.ts";
import { byteLevelChar } from "../../src/tokens/byte-level.ts";
import type { Message, ToolSchema } from "../../src/trajectory/message.ts";
import {
  cutConnection,
  type FakeFault,
  type FakeOptions,
  type FakeServer,
  fakeLogprob,
  fakeTurn,
  goneAway,
  unwrapTools,
} from "./fake-model.ts";

export interface FakeVllmOptions extends FakeOptions {
  logprobsMode?: "raw" | "processed";
  apiKey?: string;
  port?: number;
  /** Served on this Unix socket instead of a port. */
  unix?: string;
  /** As with `--enable-scale-out`: `/inference/v1/generate`, which tells these versions of an answer's ids. */
  generate?: { versions: (ids: number) => { version: string; start: number; end: number }[] | null };
  /** As with VLLM_SERVER_DEV_MODE: the routes that pause the server and change its weights. */
  devMode?: boolean;
}

/** What a fake vLLM has seen besides. */
export interface FakeVllm extends FakeServer {
  /** Ids that were to be aborted, without those of probes. */
  aborted: string[];
}

/** A server with vLLM's routes and answers (shapes of 0.32), over a tokenizer of bytes. */
export function startFakeVllm(options: FakeVllmOptions = {}): FakeVllm {
  const aborted: string[] = [];
  const bodies: Record<string, unknown>[] = [];
  const headers: Headers[] = [];
  let inFlight = 0;
  let disconnects = 0;
  const model = options.model ?? "fake";
  const guarded = (request: Request) =>
    options.apiKey !== undefined && request.headers.get("authorization") !== `Bearer ${options.apiKey}`;
  const fetchHandler = async (request: Request): Promise<Response> => {
    const path = new URL(request.url).pathname;
    if (path.startsWith("/v1") && guarded(request)) return Response.json({ error: "Unauthorized" }, { status: 401 });
    if (path === "/health") return new Response("");
    if (path === "/version") return Response.json({ version: "0.32.0" });
    if (path === "/v1/models") return Response.json(models(model, options));
    if (path === "/tokenize") return tokenize(await request.json());
    if (path === "/detokenize") {
      return Response.json({ prompt: decodeScripted(((await request.json()) as { tokens: number[] }).tokens, true) });
    }
    const small = await smallRoute(options, request, aborted);
    if (small !== null) return small;
    const isGenerate = path === "/inference/v1/generate";
    if (isGenerate && options.generate === undefined) return problem(403, SCALE_OUT_OFF, "PermissionDeniedError");
    if (path !== "/v1/completions" && !isGenerate) return Response.json({ detail: "Not Found" }, { status: 404 });
    const body = isGenerate ? flatten(await request.json()) : ((await request.json()) as CompletionBody);
    const fault = options.fault?.(bodies.length, { ...body }) ?? null;
    bodies.push({ ...body });
    headers.push(request.headers);
    if (body.model !== model) return problem(404, `The model \`${body.model}\` does not exist.`, "NotFoundError");
    inFlight += 1;
    void goneAway(request).then(() => {
      disconnects += 1;
    });
    try {
      if (fault === "hang") {
        await goneAway(request);
        return new Response(null, { status: 499 });
      }
      if (fault === "error500") return problem(500, "EngineCore encountered an issue.", "InternalServerError");
      if (fault === "overload") return new Response("busy", { status: 503 });
      if (body.prompt.length > (options.contextTokens ?? 4_096)) {
        return problem(
          400,
          `This model's maximum context length is ${options.contextTokens} tokens.`,
          "BadRequestError",
        );
      }
      if (isGenerate) return generated(options, body, fault);
      return body.stream ? streamed(options, body, fault) : Response.json(whole(options, body));
    } finally {
      inFlight -= 1;
    }
  };
  const server =
    options.unix === undefined
      ? Bun.serve({
          hostname: "127.0.0.1",
          port: options.port ?? 0,
          idleTimeout: 0,
          development: false,
          fetch: fetchHandler,
        })
      : Bun.serve({ unix: options.unix, fetch: fetchHandler });
  return {
    url: options.unix === undefined ? `http://127.0.0.1:${server.port}` : `unix:${options.unix}`,
    bodies,
    headers,
    aborted,
    inFlight: () => inFlight,
    disconnects: () => disconnects,
    [Symbol.asyncDispose]: () => server.stop(true),
  };
}

const SCALE_OUT_OFF = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.";

/** Routes that exist only with a flag, and the metrics; null for all others. */
async function smallRoute(options: FakeVllmOptions, request: Request, aborted: string[]): Promise<Response | null> {
  const path = new URL(request.url).pathname;
  if (path === "/metrics") {
    return new Response('vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="512"} 1.0\n');
  }
  if (path === "/inference/v1/abort_requests" && options.generate !== undefined) {
    const { request_ids } = (await request.json()) as { request_ids: string[] };
    aborted.push(...request_ids.filter((id) => id !== "rolloutd-probe"));
    return new Response("");
  }
  if (options.devMode && path === "/is_paused") return Response.json({ is_paused: false });
  if (options.devMode && path === "/weight_info") return Response.json({ weight_version: "w8" });
  return null;
}

/** A body of `/inference/v1/generate` as one of `/v1/completions`. */
function flatten(body: { token_ids: number[]; sampling_params: Record<string, unknown> }): CompletionBody {
  const { token_ids, sampling_params, ...rest } = body;
  return { prompt: token_ids, ...sampling_params, ...rest } as unknown as CompletionBody;
}

interface CompletionBody {
  model: string;
  prompt: number[];
  max_tokens: number;
  stream?: boolean;
  temperature: number;
  logprobs: number;
  stop_token_ids?: number[];
  request_id?: string;
}

function models(model: string, options: FakeOptions) {
  const root = `./${model}-${options.size ?? 1}`;
  const max_model_len = options.contextTokens ?? 4_096;
  return {
    object: "list",
    data: [{ id: model, object: "model", owned_by: "vllm", root, parent: null, max_model_len }],
  };
}

async function tokenize(body: unknown): Promise<Response> {
  const ask = body as { prompt?: string; messages?: Message[]; tools?: { function: ToolSchema }[] };
  const calls = (ask.messages ?? []).flatMap((message) => (message as { tool_calls?: WireCall[] }).tool_calls ?? []);
  if (calls.some((call) => typeof call.function.arguments !== "string")) {
    return problem(400, "arguments: Input should be a valid string", "BadRequestError");
  }
  const text = ask.prompt ?? (await createScriptedSource().render(ask.messages ?? [], unwrapTools(ask.tools)));
  const tokens = encodeScripted(text).ids;
  const token_strs = tokens.map((id) => (id < 256 ? byteLevelChar(id) : decodeScripted([id], true)));
  return Response.json({ count: tokens.length, max_model_len: 4_096, tokens, token_strs });
}

interface WireCall {
  function: { arguments: unknown };
}

function sample(options: FakeOptions, body: CompletionBody) {
  const all = fakeTurn(options, body.prompt);
  const stopAt = all.findIndex((id) => body.stop_token_ids?.includes(id));
  const ended = stopAt < 0 ? all : all.slice(0, stopAt + 1);
  const ids = ended.slice(0, body.max_tokens);
  const finish = ids.length < ended.length ? "length" : "stop";
  const logprobs = ids.map((id, index) => fakeLogprob(id, body.prompt.length + index));
  return { ids, logprobs, finish };
}

function logprobsOf(ids: readonly number[], token_logprobs: readonly (number | null)[]) {
  return { text_offset: ids.map(() => 0), token_logprobs, tokens: ids.map(String), top_logprobs: ids.map(() => ({})) };
}

function whole(options: FakeVllmOptions, body: CompletionBody) {
  const { ids, logprobs, finish } = sample(options, body);
  const sharp = options.logprobsMode === "processed" && body.temperature > 0 ? 1 / body.temperature : 1;
  const top = Object.fromEntries(["a", "b", "c"].map((token, index) => [token, -(index + 1) * sharp]));
  const logprobsMember = { ...logprobsOf(ids, logprobs), top_logprobs: ids.map(() => top) };
  return {
    id: "cmpl-1",
    object: "text_completion",
    model: body.model,
    choices: [
      { index: 0, text: "", logprobs: logprobsMember, finish_reason: finish, stop_reason: null, token_ids: ids },
    ],
    usage: { prompt_tokens: body.prompt.length, completion_tokens: ids.length, prompt_tokens_details: null },
  };
}

/** Two chunks, as with a large `stream_interval`: the first token, then the rest; usage in a chunk of its own. */
function streamed(options: FakeOptions, body: CompletionBody, fault: FakeFault): Response {
  const { ids, logprobs, finish } = sample(options, body);
  const told: (number | null)[] = fault === "nan" ? logprobs.map(() => null) : logprobs;
  const chunk = (from: number, to: number, end: string | null) => ({
    id: `cmpl-${body.request_id ?? "1"}`,
    object: "text_completion",
    model: body.model,
    choices: [
      {
        index: 0,
        text: "",
        logprobs: logprobsOf(ids.slice(from, to), told.slice(from, fault === "lengths" ? to - 1 : to)),
        finish_reason: end,
        stop_reason: null,
        prompt_token_ids: from === 0 ? body.prompt : null,
        token_ids: ids.slice(from, to),
      },
    ],
  });
  const usage = {
    prompt_tokens: body.prompt.length,
    completion_tokens: ids.length,
    prompt_tokens_details: { cached_tokens: 3 },
  };
  const lines = [JSON.stringify(chunk(0, 1, ids.length === 1 ? finish : null))];
  if (fault !== "abort" && ids.length > 1) lines.push(JSON.stringify(chunk(1, ids.length, finish)));
  lines.push(JSON.stringify({ id: "cmpl-1", choices: [], usage }), "[DONE]");
  if (fault === "garbage") lines.unshift("<html>");
  const bytes = new TextEncoder().encode(lines.map((line) => `data: ${line}\n\n`).join(""));
  if (fault === "die") return cutConnection();
  return new Response(bytes, { headers: { "content-type": "text/event-stream; charset=utf-8" } });
}

/** Answer of `/inference/v1/generate`: streamed in two pieces, the versions with the last. */
function generated(options: FakeVllmOptions, body: CompletionBody, fault: FakeFault): Response {
  if (fault === "die") return cutConnection();
  const { ids, logprobs, finish } = sample(options, body);
  const told = fault === "lengths" ? logprobs.slice(1) : logprobs;
  const content = told.map((logprob, index) => ({
    token_id: ids[index],
    logprob: fault === "nan" ? null : logprob,
    rank: 1,
    top_logprobs: [],
  }));
  const usage = { prompt_tokens: body.prompt.length, completion_tokens: ids.length };
  const piece = (from: number, to: number, isLast: boolean) => ({
    request_id: `generate-tokens-${body.request_id ?? "1"}`,
    output_mode: "tokens",
    choices: [
      {
        index: 0,
        finish_reason: isLast ? finish : null,
        stop_reason: null,
        token_ids: ids.slice(from, to),
        weight_versions: isLast ? (options.generate?.versions(ids.length) ?? null) : null,
        logprobs: { content: content.slice(from, to) },
      },
    ],
  });
  if (!body.stream) return Response.json({ ...piece(0, ids.length, true), usage });
  const lines = [JSON.stringify(piece(0, 1, ids.length === 1))];
  if (fault !== "abort" && ids.length > 1) lines.push(JSON.stringify(piece(1, ids.length, true)));
  lines.push(JSON.stringify({ request_id: "generate-tokens-1", choices: [], usage }), "[DONE]");
  if (fault === "garbage") lines.unshift("<html>");
  return new Response(lines.map((line) => `data: ${line}\n\n`).join(""), {
    headers: { "content-type": "text/event-stream; charset=utf-8" },
  });
}

function problem(status: number, message: string, type: string): Response {
  return Response.json({ error: { message, type, param: null, code: status } }, { status });
}
