import { RolloutError } from "../errors.ts";
import { TOKEN_LIMITS } from "../limits.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import { attribute, locateContents, sentinelOf, withSentinels } from "./attribution.ts";
import { PromptCache } from "./prompt-cache.ts";
import type { Rendered, Renderer } from "./renderer.ts";
import type { Encoded, TemplateSource } from "./template-source.ts";

/** The synthetic assistant turn that a delta follows: it is always cut away, only what comes after it is kept. */
const BASE_USER = "Begin.";
const BASE_ASSISTANT = sentinelOf(1_000_000);

interface Conversation {
  text: string;
  encoded: Encoded;
  owners: Int32Array;
}

/** Renders prompts and deltas by a template source; works the same on files and behind a server. */
export class TemplateRenderer implements Renderer {
  readonly kind: "local" | "remote";
  readonly tokenizerHash: string;
  readonly templateHash: string;
  readonly endIds: readonly number[];
  readonly #source: TemplateSource;
  readonly #prompts = new PromptCache();

  constructor(source: TemplateSource) {
    this.#source = source;
    this.kind = source.kind;
    this.tokenizerHash = source.tokenizerHash;
    this.templateHash = source.templateHash;
    this.endIds = source.endIds;
  }

  renderPrompt(messages: readonly Message[], tools: readonly ToolSchema[]): Promise<Rendered> {
    return this.#prompts.get(JSON.stringify([messages, tools]), async () => {
      const { encoded, owners } = await this.#render(messages, tools);
      return rendered(encoded.ids, owners, 0);
    });
  }

  async renderDelta(added: readonly Message[], tools: readonly ToolSchema[], endedByModel: boolean): Promise<Rendered> {
    const base = syntheticBase(added);
    const { text, encoded, owners } = await this.#render([...base, ...added], tools);
    const cut = await this.#endOfAssistant(text, encoded.ids);
    const from = endedByModel ? cut + 1 : cut;
    return rendered(encoded.ids.slice(from), owners.slice(from), base.length);
  }

  decode(ids: Int32Array, keepSpecial: boolean): Promise<string> {
    return this.#source.decode(Array.from(ids), keepSpecial);
  }

  markerId(marker: string): number | null {
    return this.#source.markerId(marker);
  }

  async #render(messages: readonly Message[], tools: readonly ToolSchema[]): Promise<Conversation> {
    const text = (await this.#source.render(messages, tools)).toWellFormed();
    if (text.length > TOKEN_LIMITS.renderedCharsMax) {
      throw new RolloutError("task_invalid", `a rendering of ${text.length} characters is too long`);
    }
    const encoded = await this.#source.encode(text);
    // A template may refuse a sentinel where it took the content; attribution then falls back to a search.
    const scaffold = await this.#source.render(withSentinels(messages), tools).catch(() => null);
    const wellFormed = messages.map((message) => ({ ...message, content: message.content.toWellFormed() }));
    return { text, encoded, owners: attribute(text, encoded, locateContents(text, scaffold, wellFormed)) };
  }

  /**
   * Position of the end token that closes the synthetic assistant turn: the first one after its sentinel. End tokens
   * before it are counted in the ids of the text up to the sentinel, so what `added` contains cannot move the cut.
   */
  async #endOfAssistant(text: string, ids: readonly number[]): Promise<number> {
    const end = this.endIds[0];
    const sentinelAt = text.indexOf(BASE_ASSISTANT);
    if (end === undefined || sentinelAt < 0) {
      throw new RolloutError("backend_invalid", "the chat template does not show the text of an assistant's turn");
    }
    const before = await this.#source.encode(text.slice(0, sentinelAt));
    let toSkip = before.ids.filter((id) => id === end).length;
    for (const [index, id] of ids.entries()) {
      if (id !== end) continue;
      if (toSkip === 0) return index;
      toSkip -= 1;
    }
    throw new RolloutError("backend_invalid", `the chat template closes no assistant's turn with token ${end}`);
  }
}

function syntheticBase(added: readonly Message[]): Message[] {
  const calls = added
    .filter((message) => message.role === "tool")
    .map((message, index) => ({
      id: message.toolCallId ?? `call_${index + 1}`,
      name: message.name ?? "tool",
      arguments: "{}",
    }));
  return [
    { role: "user", content: BASE_USER },
    { role: "assistant", content: BASE_ASSISTANT, ...(calls.length === 0 ? {} : { toolCalls: calls }) },
  ];
}

/** `base` synthetic messages came before those that the caller gave: their text counts as scaffold. */
function rendered(ids: readonly number[], owners: Int32Array, base: number): Rendered {
  const message = owners.map((owner) => (owner < base ? -1 : owner - base));
  return { ids: Int32Array.from(ids), content: Uint8Array.from(message, (owner) => (owner < 0 ? 0 : 1)), message };
}
