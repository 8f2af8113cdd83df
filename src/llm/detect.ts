import { LLM_LIMITS } from "../limits.ts";
import { ENGINE_KINDS } from "./engine.ts";
import { invalid } from "./fault.ts";
import type { Http } from "./http.ts";

/** Kinds that a server shows by its routes. A chat-only one is never guessed: its tokens are not exact. */
export type DetectedKind = "vllm" | "sglang" | "llamacpp" | "prorl";

/**
 * Which dialect a server speaks, by the routes that only one of them has; a token may be sampled. Throws RolloutError
 * backend_unreachable when nothing answers and backend_invalid when it is no server that is known.
 */
export async function detectKind(http: Http, signal: AbortSignal): Promise<DetectedKind> {
  const get = (path: string) => http.text({ method: "GET", path, ms: LLM_LIMITS.controlMs, signal });
  const props = await get("/props");
  if (props.status === 200 && props.body.includes("default_generation_settings")) return "llamacpp";
  const models = await get("/v1/models");
  if (models.status === 401 || models.status === 403) throw invalid("GET /v1/models", "the server refuses the API key");
  if (models.body.includes('"llamacpp"')) return "llamacpp";
  if (models.body.includes('"vllm"')) return "vllm";
  if (models.body.includes('"sglang"')) return "sglang";
  for (const path of ["/model_info", "/get_model_info"]) {
    const info = await get(path);
    if (info.status === 200 && info.body.includes('"model_path"')) return "sglang";
  }
  const version = await get("/version");
  if (version.status === 200 && version.body.includes("version")) return "vllm";
  if (models.status === 404 && (await isProrl(http, signal))) return "prorl";
  throw invalid(
    "GET /v1/models",
    `no dialect by ids is known here; name the kind if it is one of ${ENGINE_KINDS.join(", ")} ("chat" is for servers of text alone)`,
  );
}

async function isProrl(http: Http, signal: AbortSignal): Promise<boolean> {
  const body = { prompt_ids: [1], max_tokens: 1, temperature: 0 };
  const answer = await http.text({ path: "/generate", ms: LLM_LIMITS.probeMs, signal, body });
  return answer.status === 200 && answer.body.includes('"response_ids"');
}
