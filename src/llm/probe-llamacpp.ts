import { createHash } from "node:crypto";
import { LLM_LIMITS } from "../limits.ts";
import { DEFAULT_SAMPLING } from "../trajectory/sampling.ts";
import type { BackendProfile } from "./engine.ts";
import { CompletionAnswer, Models, Props, samplerSettings } from "./engines/llamacpp-api.ts";
import { sliceLogprobs } from "./engines/llamacpp-logprobs.ts";
import { invalid } from "./fault.ts";
import type { Http } from "./http.ts";

/** What a llama.cpp server can do; one token is really sampled. Throws RolloutError when it cannot do what is needed. */
export async function probeLlamaCpp(http: Http, signal: AbortSignal): Promise<BackendProfile> {
  const small = { method: "GET", ms: LLM_LIMITS.controlMs, signal } as const;
  const props = await http.json(Props, { ...small, path: "/props" });
  const models = await http.json(Models, { ...small, path: "/v1/models" });
  const model = models.data[0];
  if (model === undefined) throw invalid("GET /v1/models", "no model");
  await sampleOne(http, signal);
  const contextTokensMax = props.default_generation_settings.n_ctx;
  const { vocab_type, n_vocab, n_embd, n_params, size, ftype } = model.meta ?? {};
  const identity = ["llamacpp", vocab_type, n_vocab, n_embd, n_params, size, ftype ?? props.model_ftype];
  return {
    kind: "llamacpp",
    version: props.build_info === "" ? null : props.build_info,
    model: model.id,
    contextTokensMax,
    slots: props.total_slots,
    kvTokens: contextTokensMax * props.total_slots,
    logprobsMode: "raw",
    renderer: "remote",
    endpoint: "/completion",
    tokenExact: true,
    tellsVersions: false,
    abort: null,
    weights: null,
    streamInterval: false,
    devMode: null,
    notes: [
      "log-probs are those before temperature and cuts: at another temperature than 1 they are not the sampler's",
    ],
    weightsIdentity: createHash("sha256").update(JSON.stringify(identity)).digest("hex"),
  };
}

async function sampleOne(http: Http, signal: AbortSignal): Promise<void> {
  const prompt = [0];
  const answer = await http.json(CompletionAnswer, {
    path: "/completion",
    ms: LLM_LIMITS.probeMs,
    signal,
    body: {
      prompt,
      n_predict: 1,
      n_probs: 1,
      return_tokens: true,
      stream: false,
      seed: 1,
      ...samplerSettings({ ...DEFAULT_SAMPLING, temperature: 0 }),
    },
  });
  const logprobs = await sliceLogprobs({ http, ms: LLM_LIMITS.probeMs, signal }, prompt, answer);
  const wrong = logprobs.find((value) => !Number.isFinite(value));
  if (wrong !== undefined) throw invalid("POST /completion", `log-prob ${wrong} in the probe`);
}
