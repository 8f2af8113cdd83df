import { createHash } from "node:crypto";
import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";
import type { BackendProfile } from "./engine.ts";
import { Models, parseAnswer } from "./engines/chat-api.ts";
import { CHAT_ENDPOINT, type ChatClient } from "./engines/chat-client.ts";
import { invalid } from "./fault.ts";
import type { Http } from "./http.ts";

/** No tokenizer in use has longer tokens on average: the server itself says when a prompt is too long. */
const BYTES_PER_TOKEN_MAX = 8;

/** A server and the model that is wanted of it; null takes the first it lists. */
export interface ChatServer {
  client: ChatClient;
  /** Of the same server, with paths from its root. */
  http: Http;
  model: string | null;
}

/** What servers of this API differ in. */
export interface ChatDialect {
  model: string;
  lengthName: "max_tokens" | "max_completion_tokens";
  logprobs: boolean;
}

/** What a chat server can do; a token is really sampled. Throws RolloutError when it cannot do what is needed. */
export async function probeChat({ http, client, model: wanted }: ChatServer, signal: AbortSignal) {
  const models = await http.json(Models, { method: "GET", path: "/v1/models", ms: LLM_LIMITS.controlMs, signal });
  const model = wanted === null ? models.data[0] : (models.data.find(({ id }) => id === wanted) ?? { id: wanted });
  if (model === undefined) throw invalid("GET /v1/models", "no model");
  const dialect = await findDialect(client, model.id, signal);
  const told = model.max_model_len ?? model.context_length ?? LLM_LIMITS.contextTokensGuess;
  const profile: BackendProfile = {
    kind: "chat",
    version: null,
    model: model.id,
    contextTokensMax: told * BYTES_PER_TOKEN_MAX,
    slots: null,
    kvTokens: null,
    logprobsMode: "raw",
    renderer: "local",
    endpoint: CHAT_ENDPOINT,
    tokenExact: false,
    tellsVersions: false,
    abort: null,
    weights: null,
    streamInterval: false,
    devMode: null,
    notes: [
      "text only: ids are bytes of what was said, so bounds in tokens count bytes, and nothing may be trained on it as it is",
      dialect.logprobs
        ? "a log-prob stands at the first byte of its token"
        : "the server gives no log-probs: all of them are 0",
    ],
    weightsIdentity: createHash("sha256")
      .update(JSON.stringify(["chat", model.id]))
      .digest("hex"),
  };
  return { profile, dialect };
}

/** Tries the usual spelling first; a server refuses what it does not take. The last refusal is thrown. */
async function findDialect(client: ChatClient, model: string, signal: AbortSignal): Promise<ChatDialect> {
  let refusal: unknown;
  for (const logprobs of [true, false]) {
    for (const lengthName of ["max_tokens", "max_completion_tokens"] as const) {
      const body = {
        model,
        messages: [{ role: "user", content: "a" }],
        [lengthName]: 1,
        ...(logprobs ? { logprobs } : {}),
      };
      try {
        const { choice } = parseAnswer(await client.create(body, { ms: LLM_LIMITS.probeMs, signal }));
        return { model, lengthName, logprobs: Boolean(choice.logprobs?.content) };
      } catch (error) {
        const isRefusal = error instanceof RolloutError && error.reason === "backend_invalid";
        if (!isRefusal) throw error;
        refusal = error;
      }
    }
  }
  throw refusal;
}
