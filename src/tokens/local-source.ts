import { Template } from "@huggingface/jinja";
import { Tokenizer } from "@huggingface/tokenizers";
import { RolloutError } from "../errors.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import { byteLevelLength } from "./byte-level.ts";
import { type Encoded, type TemplateSource, templateMessage, templateTool } from "./template-source.ts";
import type { TokenizerFiles } from "./tokenizer-files.ts";

/** A template source from a model's own files. Runs where it is called: in the Worker, not on the main thread. */
export function createLocalSource(files: TokenizerFiles): LocalSource {
  return new LocalSource(files);
}

/** See `createLocalSource`. */
export class LocalSource implements TemplateSource {
  readonly kind = "local";
  readonly tokenizerHash: string;
  readonly templateHash: string;
  readonly endIds: readonly number[];
  /** Every added token of the tokenizer, by its text. */
  readonly addedTokens: ReadonlyMap<string, number>;
  readonly #files: TokenizerFiles;
  readonly #tokenizer: Tokenizer;
  readonly #template: Template;

  constructor(files: TokenizerFiles) {
    this.#files = files;
    this.tokenizerHash = files.tokenizerHash;
    this.templateHash = files.templateHash;
    try {
      // With the clean-up that some configs ask for, decoding drops spaces that the reference tokenizer keeps.
      this.#tokenizer = new Tokenizer(files.tokenizer, { ...files.config, clean_up_tokenization_spaces: false });
      this.#template = new Template(files.template);
    } catch (cause) {
      throw new RolloutError("backend_invalid", `the tokenizer's files are not understood: ${text(cause)}`, { cause });
    }
    const added = this.#tokenizer.get_added_tokens_decoder();
    this.addedTokens = new Map(Array.from(added, ([id, token]) => [token.content, id]));
    this.endIds = this.#findEndIds();
  }

  async render(messages: readonly Message[], tools: readonly ToolSchema[]): Promise<string> {
    return this.#render(messages, tools);
  }

  async encode(plain: string): Promise<Encoded> {
    // A lone surrogate would become bytes that no other tokenizer gives for it.
    const { ids, tokens } = this.#tokenizer.encode(plain.toWellFormed(), { add_special_tokens: false });
    return { ids, byteLengths: this.#byteLengths(tokens) };
  }

  async decode(ids: readonly number[], keepSpecial: boolean): Promise<string> {
    if (ids.length === 0) return "";
    return this.#tokenizer.decode([...ids], { skip_special_tokens: !keepSpecial, clean_up_tokenization_spaces: false });
  }

  markerId(marker: string): number | null {
    return this.addedTokens.get(marker) ?? null;
  }

  #render(messages: readonly Message[], tools: readonly ToolSchema[]): string {
    try {
      return this.#template.render({
        messages: messages.map(templateMessage),
        ...(tools.length === 0 ? {} : { tools: tools.map(templateTool) }),
        add_generation_prompt: true,
        bos_token: this.#files.bosToken ?? "",
        eos_token: this.#files.eosToken ?? "",
      });
    } catch (cause) {
      throw new RolloutError("task_invalid", `the chat template refuses these messages: ${text(cause)}`, { cause });
    }
  }

  #byteLengths(tokens: readonly string[]): number[] | null {
    const lengths: number[] = [];
    for (const token of tokens) {
      const length = this.addedTokens.has(token) ? Buffer.byteLength(token) : byteLevelLength(token);
      if (length === null) return null;
      lengths.push(length);
    }
    return lengths;
  }

  #findEndIds(): number[] {
    const eos = this.#files.eosToken === null ? undefined : this.#tokenizer.token_to_id(this.#files.eosToken);
    const found = [this.#turnEndId(), eos, ...this.#files.generationEndIds].filter((id) => id !== undefined);
    if (found.length === 0) throw new RolloutError("backend_invalid", "the tokenizer names no end token");
    return [...new Set(found)];
  }

  /** The first added token that the template puts behind an assistant's text: of base models it is not `eos_token`. */
  #turnEndId(): number | undefined {
    const probe = "\uE0F0turn\uE0F1";
    const messages: Message[] = [
      { role: "user", content: "a" },
      { role: "assistant", content: probe },
      { role: "user", content: "b" },
    ];
    const shown = this.#render(messages, []);
    const after = shown.slice(shown.indexOf(probe) + probe.length);
    let best: { at: number; id: number } | undefined;
    for (const [token, id] of this.addedTokens) {
      const at = token.trim() === "" ? -1 : after.indexOf(token);
      if (at >= 0 && (best === undefined || at < best.at)) best = { at, id };
    }
    return best?.id;
  }
}

function text(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
