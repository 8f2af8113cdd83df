import { createHash } from "node:crypto";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { RolloutError } from "../errors.ts";
import { TOKEN_LIMITS } from "../limits.ts";

const TokenText = z.union([z.string(), z.looseObject({ content: z.string() }).transform((token) => token.content)]);

/** The parts of tokenizer_config.json that rendering needs; the rest is kept and handed to the tokenizer. */
const TokenizerConfig = z.looseObject({
  bos_token: TokenText.nullish(),
  eos_token: TokenText.nullish(),
  pad_token: TokenText.nullish(),
  unk_token: TokenText.nullish(),
  chat_template_kwargs: z
    .record(z.string(), z.json())
    .refine((given) => Object.keys(given).length <= TOKEN_LIMITS.templateVariablesMax)
    .nullish(),
  chat_template: z.union([z.string(), z.array(z.looseObject({ name: z.string(), template: z.string() }))]).nullish(),
});

const GenerationConfig = z.looseObject({ eos_token_id: z.union([z.int(), z.array(z.int())]).nullish() });

/** A model's tokenizer folder, read. Hashes are SHA-256 in hex over the tokenizer's bytes and the template's text. */
export interface TokenizerFiles {
  tokenizer: Record<string, unknown>;
  config: Record<string, unknown>;
  template: string;
  bosToken: string | null;
  eosToken: string | null;
  /** Variables of the template: special tokens, and `chat_template_kwargs` such as `enable_thinking`. */
  variables: Readonly<Record<string, unknown>>;
  /** Further ids that end generation, from generation_config.json. */
  generationEndIds: readonly number[];
  tokenizerHash: string;
  templateHash: string;
}

/**
 * Reads tokenizer.json, tokenizer_config.json, and where they exist chat_template.jinja (which wins over the config's
 * template) and generation_config.json. Throws RolloutError backend_invalid naming the file that is missing or wrong.
 */
export async function readTokenizerFiles(folder: string): Promise<TokenizerFiles> {
  const tokenizerText = await readText(join(folder, "tokenizer.json"));
  const configText = await readText(join(folder, "tokenizer_config.json"));
  if (tokenizerText === null) throw missing(folder, "tokenizer.json");
  const tokenizer = parseJson(z.record(z.string(), z.unknown()), tokenizerText, join(folder, "tokenizer.json"));
  const config = parseJson(TokenizerConfig, configText ?? "{}", join(folder, "tokenizer_config.json"));
  const generationText = await readText(join(folder, "generation_config.json"));
  const generation = parseJson(GenerationConfig, generationText ?? "{}", join(folder, "generation_config.json"));
  const template = (await readText(join(folder, "chat_template.jinja"))) ?? defaultTemplate(config.chat_template);
  if (template === null) throw missing(folder, "chat_template.jinja (or chat_template in tokenizer_config.json)");
  const kwargs = config.chat_template_kwargs ?? {};
  return {
    tokenizer,
    config,
    // The engine keeps carriage returns that Python's drops, so CRLF templates would render other ids.
    template: template.replaceAll("\r\n", "\n"),
    bosToken: config.bos_token ?? null,
    eosToken: config.eos_token ?? null,
    variables: { ...specialTokens(config), ...kwargs },
    generationEndIds: [generation.eos_token_id ?? []].flat(),
    tokenizerHash: createHash("sha256").update(tokenizerText).digest("hex"),
    templateHash: createHash("sha256")
      .update(template + hashedKwargs(kwargs))
      .digest("hex"),
  };
}

function specialTokens(config: z.infer<typeof TokenizerConfig>): Record<string, string> {
  const { bos_token, eos_token, pad_token, unk_token } = config;
  const given = Object.entries({ bos_token, eos_token, pad_token, unk_token });
  return Object.fromEntries(given.flatMap(([name, token]) => (typeof token === "string" ? [[name, token]] : [])));
}

/** Other variables render otherwise: they belong to what the template's hash stands for. */
function hashedKwargs(kwargs: Readonly<Record<string, unknown>>): string {
  return Object.keys(kwargs).length === 0 ? "" : `\0${JSON.stringify(kwargs)}`;
}

type TemplateField = z.infer<typeof TokenizerConfig>["chat_template"];

function defaultTemplate(field: TemplateField): string | null {
  if (field === null || field === undefined || typeof field === "string") return field ?? null;
  return (field.find((named) => named.name === "default") ?? field[0])?.template ?? null;
}

async function readText(path: string): Promise<string | null> {
  const found = await stat(path).catch(() => null);
  if (found === null || !found.isFile()) return null;
  if (found.size > TOKEN_LIMITS.tokenizerFileBytesMax) {
    throw new RolloutError("backend_invalid", `${path} has ${found.size} bytes, which is too large for a tokenizer`);
  }
  return Bun.file(path).text();
}

function parseJson<T>(schema: z.ZodType<T>, text: string, path: string): T {
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new RolloutError("backend_invalid", `${path} is not what a tokenizer folder holds`, { cause });
  }
}

function missing(folder: string, what: string): RolloutError {
  return new RolloutError("backend_invalid", `the tokenizer folder ${folder} has no ${what}`);
}
