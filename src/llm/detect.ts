import { LLM_LIMITS } from "../limits.ts";
import type { EngineKind } from "./engine.ts";
import { invalid } from "./fault.ts";
import type { Http } from "./http.ts";

/**
 * Which dialect a server speaks, by the routes that only one of them has. Throws RolloutError backend_unreachable when
 * nothing answers and backend_invalid when it is no server that is known.
 */
export async function detectKind(http: Http, signal: AbortSignal): Promise<Exclude<EngineKind, "scripted">> {
  const get = (path: string) => http.text({ method: "GET", path, ms: LLM_LIMITS.controlMs, signal });
  const props = await get("/props");
  if (props.status === 200 && props.body.includes("default_generation_settings")) return "llamacpp";
  const models = await get("/v1/models");
  if (models.status === 401 || models.status === 403) throw invalid("GET /v1/models", "the server refuses the API key");
  if (models.body.includes('"llamacpp"')) return "llamacpp";
  const version = await get("/version");
  if (models.body.includes('"vllm"') || (version.status === 200 && version.body.includes("version"))) return "vllm";
  throw invalid("GET /v1/models", "neither vLLM nor llama.cpp; name the kind if it is one of them");
}
