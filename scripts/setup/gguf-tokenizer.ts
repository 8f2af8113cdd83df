import { mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { type GgufValue, readGgufMetadata } from "./gguf.ts";

/** Metadata stands before the weights; SmolLM2's takes 1.7 MB. */
const METADATA_BYTES_MAX = 64 * 1024 * 1024;

/** llama.cpp's token types: what the model was trained with as control tokens, and what was added as text. */
const CONTROL = 3;
const USER_DEFINED = 4;

/** How each pre-tokenizer that llama.cpp names splits text, in the words of tokenizer.json. */
const PRE_TOKENIZERS: Readonly<Record<string, unknown>> = {
  smollm: {
    type: "Sequence",
    pretokenizers: [
      { type: "Digits", individual_digits: true },
      { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    ],
  },
};

/**
 * Writes the tokenizer of a GGUF file into `folder` as tokenizer.json and tokenizer_config.json (with its chat
 * template), so that prompts can be rendered without the model's server. The folder appears whole or not at all.
 * Throws for a tokenizer that is not byte-level BPE of a known pre-tokenizer: a guess would give wrong ids.
 */
export async function writeGgufTokenizer(gguf: string, folder: string): Promise<void> {
  const bytes = await Bun.file(gguf).slice(0, METADATA_BYTES_MAX).bytes();
  const { tokenizer, config } = tokenizerOf(readGgufMetadata(bytes));
  const work = `${folder}.${process.pid}.part`;
  await mkdir(work, { recursive: true });
  await Bun.write(join(work, "tokenizer.json"), JSON.stringify(tokenizer));
  await Bun.write(join(work, "tokenizer_config.json"), JSON.stringify(config, null, 2));
  await rename(work, folder).catch(async (error: unknown) => {
    await rm(work, { recursive: true, force: true });
    // Another set-up came first: it wrote the same.
    if (!(await Bun.file(join(folder, "tokenizer_config.json")).exists())) throw error;
  });
}

/** The two files' contents from a GGUF file's metadata; see `writeGgufTokenizer`. */
export function tokenizerOf(metadata: ReadonlyMap<string, GgufValue>) {
  const model = metadata.get("tokenizer.ggml.model");
  const pre = text(metadata, "tokenizer.ggml.pre");
  const preTokenizer = PRE_TOKENIZERS[pre];
  if (model !== "gpt2" || preTokenizer === undefined) {
    throw new Error(`the GGUF tokenizer ${String(model)}/${pre} is not known`);
  }
  const tokens = list(metadata, "tokenizer.ggml.tokens").map(String);
  const types = list(metadata, "tokenizer.ggml.token_type");
  const added = tokens.flatMap((content, id) => {
    const special = types[id] === CONTROL;
    if (!special && types[id] !== USER_DEFINED) return [];
    return [{ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special }];
  });
  const tokenizer = {
    version: "1.0",
    added_tokens: added,
    normalizer: null,
    pre_tokenizer: preTokenizer,
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      byte_fallback: false,
      ignore_merges: false,
      vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
      merges: list(metadata, "tokenizer.ggml.merges").map(String),
    },
  };
  const token = (key: string) => tokens[Number(metadata.get(`tokenizer.ggml.${key}`) ?? -1)] ?? null;
  const config = {
    tokenizer_class: "PreTrainedTokenizerFast",
    bos_token: token("bos_token_id"),
    eos_token: token("eos_token_id"),
    pad_token: token("padding_token_id"),
    clean_up_tokenization_spaces: false,
    chat_template: text(metadata, "tokenizer.chat_template"),
  };
  return { tokenizer, config };
}

function text(metadata: ReadonlyMap<string, GgufValue>, key: string): string {
  const value = metadata.get(key);
  if (typeof value !== "string") throw new Error(`the GGUF file has no ${key}`);
  return value;
}

function list(metadata: ReadonlyMap<string, GgufValue>, key: string): readonly GgufValue[] {
  const value = metadata.get(key);
  if (!Array.isArray(value)) throw new Error(`the GGUF file has no ${key}`);
  return value;
}
