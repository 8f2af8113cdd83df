import { z } from "zod";
import type { WireBackend } from "./wire.ts";

/** A backend's profile as far as words are made of it; what another version adds or leaves out is passed over. */
const Profile = z.object({
  kind: z.string(),
  version: z.string().nullish(),
  context_tokens_max: z.number(),
  slots: z.number().nullish(),
  kv_tokens: z.number().nullish(),
  logprobs_mode: z.string(),
  renderer: z.string(),
  endpoint: z.string().nullish(),
  token_exact: z.boolean().default(true),
  tells_versions: z.boolean().default(false),
  abort: z.object({ route: z.string(), id: z.string() }).nullish(),
  weights: z.object({ route: z.string(), version: z.string() }).nullish(),
  stream_interval: z.boolean().default(false),
  dev_mode: z.boolean().nullish(),
  notes: z.array(z.string()).default([]),
  weights_identity: z.string(),
});
type Profile = z.infer<typeof Profile>;

/** What is known of a backend, as rows of a name and a sentence or two. */
export function backendWords(backend: WireBackend): [string, string][] {
  const rows: [string, string][] = [
    ["id", backend.id],
    ["url", backend.url],
    ["state", backend.detail ? `${backend.state}: ${backend.detail}` : backend.state],
    ["model", backend.model ?? "not known yet"],
    ["role", backend.role],
    ["policy version", backend.policy_version],
  ];
  const profile = Profile.safeParse(backend.profile).data;
  if (profile === undefined) rows.push(["profile", "none: no probe has succeeded yet"]);
  else rows.push(...profileWords(profile));
  for (const [key, value] of Object.entries(backend.load)) rows.push([key.replaceAll("_", " "), String(value)]);
  return rows;
}

function profileWords(profile: Profile): [string, string][] {
  return [
    ["engine", `${profile.kind} ${profile.version ?? "of a version that it does not tell"}`],
    ["turns go to", profile.endpoint ?? "-"],
    ["tokens", profile.token_exact ? EXACT : TEXT],
    ["log-probs", logprobsWords(profile)],
    ["context", `${profile.context_tokens_max} tokens, prompt and completion`],
    ["cache", profile.kv_tokens ? `${profile.kv_tokens} tokens` : "the server does not tell its size"],
    ["at once", profile.slots ? `${profile.slots} turns` : "the server does not tell how many turns"],
    ["rendering", profile.renderer === "local" ? "here, with the tokenizer folder" : "by the server's own routes"],
    ["streams", profile.stream_interval ? "in two pieces, the first token and the rest" : streamWords(profile)],
    [
      "abort",
      profile.abort ? `POST ${profile.abort.route} with ${profile.abort.id}, and by hanging up` : "by hanging up",
    ],
    ["weights", weightsWords(profile)],
    ["development mode", devWords(profile)],
    ["weights identity", profile.weights_identity],
    ...profile.notes.map((note, index): [string, string] => [index === 0 ? "notes" : "", note]),
  ];
}

const EXACT = "exact: ids in, ids and log-probs out";
const TEXT = "made from text: not for training unless a job takes it so";

function logprobsWords({ logprobs_mode: mode }: Profile): string {
  return mode === "processed"
    ? "of the sampler, after temperature and cuts"
    : "raw, before temperature: right only at temperature 1 without cuts";
}

function streamWords({ kind }: Profile): string {
  return kind === "vllm" || kind === "sglang" ? "token by token, which costs more" : "not used";
}

function weightsWords({ weights, tells_versions: each }: Profile): string {
  const now = weights === null || weights === undefined ? "" : ` GET ${weights.route} said "${weights.version}".`;
  return each
    ? `each turn tells the version of every token.${now}`
    : `turns do not tell versions token by token; the policy version given here is taken.${now}`;
}

function devWords({ dev_mode: open }: Profile): string {
  if (open === null || open === undefined) return "no such mode";
  return open ? "on: it can be paused and take new weights" : "off: it cannot be paused (VLLM_SERVER_DEV_MODE=1)";
}
