import { Tokenizer } from "@huggingface/tokenizers";
import { RolloutError } from "../errors.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import { byteLevelLength } from "./byte-level.ts";
import { ChatTemplate, isRefusal } from "./jinja/chat-template.ts";
import { toJson } from "./jinja/json.ts";
import { withReferencePatterns } from "./pre-tokenizers.ts";
import { findHabits } from "./template-habits.ts";
import { type TemplateHabits, templateMessages, templateTools } from "./template-input.ts";
import type { Encoded, TemplateSource } from "./template-source.ts";
import type { TokenizerFiles } from "./tokenizer-files.ts";
import { findTurnEnds } from "./turn-ends.ts";

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
  readonly closers: { text: number; calls: number };
  /** Every added token of the tokenizer, by its text. */
  readonly addedTokens: ReadonlyMap<string, number>;
  readonly #files: TokenizerFiles;
  readonly #tokenizer: Tokenizer;
  readonly #template: ChatTemplate;
  readonly #habits: TemplateHabits;

  constructor(files: TokenizerFiles) {
    this.#files = files;
    this.tokenizerHash = files.tokenizerHash;
    this.templateHash = files.templateHash;
    try {
      // With the clean-up that some configs ask for, decoding drops spaces that the reference tokenizer keeps.
      this.#tokenizer = new Tokenizer(withReferencePatterns(files.tokenizer), {
        ...files.config,
        clean_up_tokenization_spaces: false,
      });
      this.#template = new ChatTemplate(files.template);
    } catch (cause) {
      throw new RolloutError("backend_invalid", `the tokenizer's files are not understood: ${text(cause)}`, { cause });
    }
    const added = this.#tokenizer.get_added_tokens_decoder();
    this.addedTokens = new Map(Array.from(added, ([id, token]) => [token.content, id]));
    this.#habits = this.#opened(() => findHabits((messages, habits) => this.#shown(messages, [], habits)));
    const eos = files.eosToken === null ? undefined : this.#tokenizer.token_to_id(files.eosToken);
    const ends = this.#opened(() =>
      findTurnEnds({
        addedTokens: this.addedTokens,
        configured: [eos, ...files.generationEndIds].filter((id) => id !== undefined),
        template: files.template,
        render: (messages) => this.#shownOrNull(messages),
      }),
    );
    if (ends === null) throw new RolloutError("backend_invalid", "the tokenizer names no end token");
    this.endIds = ends.endIds;
    this.closers = ends.closers;
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
      return this.#shown(messages, tools, this.#habits);
    } catch (cause) {
      if (isRefusal(cause)) {
        throw new RolloutError("task_invalid", `the chat template refuses these messages: ${text(cause)}`, { cause });
      }
      const advice = "leave rendering to the server: register the backend without a tokenizer";
      throw new RolloutError(
        "backend_invalid",
        `the chat template is not understood here (${text(cause)}); ${advice}`,
        {
          cause,
        },
      );
    }
  }

  #shown(messages: readonly Message[], tools: readonly ToolSchema[], habits: TemplateHabits): string {
    const variables = new Map(Object.entries(this.#files.variables).map(([name, value]) => [name, toJson(value)]));
    variables.set("messages", templateMessages(messages, habits));
    variables.set("tools", templateTools(tools));
    variables.set("documents", null);
    variables.set("add_generation_prompt", true);
    return this.#template.render(variables);
  }

  #shownOrNull(messages: readonly Message[]): string | null {
    try {
      return this.#shown(messages, [], this.#habits);
    } catch (error) {
      if (isRefusal(error)) return null;
      throw error;
    }
  }

  /** What the template cannot do at all is said when the folder is opened. */
  #opened<T>(work: () => T): T {
    try {
      return work();
    } catch (cause) {
      throw new RolloutError("backend_invalid", `the chat template is not understood here: ${text(cause)}`, { cause });
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
}

function text(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
