import { LLM_LIMITS } from "../../limits.ts";
import type { Sampling } from "../../trajectory/sampling.ts";
import type { Completion, CompletionRequest, Engine } from "../engine.ts";
import { invalid } from "../fault.ts";
import { type ChatDialect, type ChatServer, probeChat } from "../probe-chat.ts";
import { type ChatChoice, parseAnswer } from "./chat-api.ts";
import { CHAT_ENDPOINT } from "./chat-client.ts";
import { readConversation, writeTurn } from "./chat-conversation.ts";
import { CHAT_IDS, encodeText } from "./chat-ids.ts";
import { createChatRenderer } from "./chat-renderer.ts";

const WHAT = `POST ${CHAT_ENDPOINT}`;

export interface ChatOptions extends ChatServer {
  /** Bound of one turn, ms. */
  turnMs: number;
}

/**
 * A server that takes and gives text alone. Its turns are not token-exact: ids are bytes of what it said, and a
 * log-prob stands at the first byte of the token that it is of (0 elsewhere, and everywhere when the server has none).
 */
export function createChatEngine(options: ChatOptions): Engine {
  const renderer = createChatRenderer();
  let found: ChatDialect | null = null;
  const probe = async (signal: AbortSignal) => {
    const { profile, dialect } = await probeChat(options, signal);
    found = dialect;
    return profile;
  };
  return {
    kind: "chat",
    probe,
    async complete(request, signal) {
      if (found === null) await probe(signal);
      if (found === null) throw invalid(WHAT, "the probe found no dialect");
      return complete(options, found, request, signal);
    },
    healthy: (signal) =>
      options.http.text({ method: "GET", path: "/v1/models", ms: LLM_LIMITS.controlMs, signal }).then(
        (answer) => answer.status === 200,
        () => false,
      ),
    remoteRenderer: async () => renderer,
  };
}

async function complete(
  { client, turnMs }: ChatOptions,
  dialect: ChatDialect,
  request: CompletionRequest,
  signal: AbortSignal,
): Promise<Completion> {
  const start = performance.now();
  const foreign = request.stopTokenIds.find((id) => id !== CHAT_IDS.end);
  if (foreign !== undefined) throw invalid(WHAT, `text cannot be stopped at id ${foreign}`);
  const { messages, tools } = readConversation(Array.from(request.ids));
  const body = {
    model: dialect.model,
    messages,
    ...(tools.length === 0 ? {} : { tools }),
    ...samplingOf(dialect, request.sampling),
  };
  const { choice, cachedTokens } = parseAnswer(await client.create(body, { ms: turnMs, signal }));
  const isCut = choice.finish_reason === "length";
  const { ids, contentAt } = writeTurn(choice.message, isCut);
  if (ids.length === 0) throw invalid(WHAT, "an empty message");
  return {
    ids: Int32Array.from(ids),
    logprobs: placeLogprobs(ids.length, contentAt, choice),
    finishReason: isCut ? "length" : "stop",
    stopReason: null,
    versions: [],
    cachedTokens,
    firstTokenMs: null,
    generationMs: performance.now() - start,
    endpoint: CHAT_ENDPOINT,
  };
}

/** Parameters that not every server knows are sent only where they ask for something. */
function samplingOf(dialect: ChatDialect, sampling: Sampling): Record<string, unknown> {
  return {
    [dialect.lengthName]: sampling.maxTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    ...(sampling.topK === -1 ? {} : { top_k: sampling.topK }),
    ...(sampling.minP === 0 ? {} : { min_p: sampling.minP }),
    ...(sampling.seed === null ? {} : { seed: sampling.seed }),
    ...(sampling.stop.length === 0 ? {} : { stop: sampling.stop }),
    ...(dialect.logprobs ? { logprobs: true } : {}),
  };
}

function placeLogprobs(length: number, contentAt: number, choice: ChatChoice): Float32Array {
  const logprobs = new Float32Array(length);
  const tokens = choice.logprobs?.content ?? [];
  const isContent = tokens.map(({ token }) => token).join("") === (choice.message.content ?? "");
  if (!isContent) return logprobs;
  let at = contentAt;
  for (const { token, logprob } of tokens) {
    if (token === "") continue;
    logprobs[at] = Math.min(0, logprob);
    at += encodeText(token).length;
  }
  return logprobs;
}
