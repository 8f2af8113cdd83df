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
const BASE_ARGUMENT = sentinelOf(1_000_001);

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
    const { base, conversation } = await this.#follow(added, tools);
    const { text, encoded, owners } = conversation;
    const cut = await this.#endOfAssistant(text, encoded.ids, this.#closer(base));
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

  /** `added` behind a synthetic turn: with a call for each answer, or with one where the template takes no more. */
  async #follow(added: readonly Message[], tools: readonly ToolSchema[]) {
    const base = syntheticBase(added);
    try {
      return { base, conversation: await this.#render([...base, ...added], tools) };
    } catch (error) {
      const fewer = withOneCall(base);
      if (fewer === null || !(error instanceof RolloutError) || error.reason !== "task_invalid") throw error;
      return { base: fewer, conversation: await this.#render([...fewer, ...added], tools) };
    }
  }

  #closer(base: readonly Message[]): number | undefined {
    const closers = this.#source.closers;
    return (base.at(-1)?.toolCalls === undefined ? closers?.text : closers?.calls) ?? this.endIds[0];
  }

  /**
   * Position of the token that closes the synthetic assistant turn: the first `closer` after its last sentinel. Those
   * before it are counted in the ids of the text up to the sentinel, so what `added` contains cannot move the cut.
   */
  async #endOfAssistant(text: string, ids: readonly number[], closer: number | undefined): Promise<number> {
    const sentinelAt = Math.max(text.lastIndexOf(BASE_ASSISTANT), text.lastIndexOf(BASE_ARGUMENT));
    if (closer === undefined || sentinelAt < 0) {
      throw new RolloutError("backend_invalid", "the chat template does not show the text of an assistant's turn");
    }
    const before = await this.#source.encode(text.slice(0, sentinelAt));
    let toSkip = before.ids.filter((id) => id === closer).length;
    for (const [index, id] of ids.entries()) {
      if (id !== closer) continue;
      if (toSkip === 0) return index;
      toSkip -= 1;
    }
    throw new RolloutError("backend_invalid", `the chat template closes no assistant's turn with token ${closer}`);
  }
}

function syntheticBase(added: readonly Message[]): Message[] {
  const calls = added
    .filter((message) => message.role === "tool")
    .map((message, index) => ({
      id: message.toolCallId ?? `call_${index + 1}`,
      name: message.name ?? "tool",
      // The last call's sentinel tells where the turn ends in templates that show no text beside calls.
      arguments: JSON.stringify({ a: BASE_ARGUMENT }),
    }));
  return [
    { role: "user", content: BASE_USER },
    { role: "assistant", content: BASE_ASSISTANT, ...(calls.length === 0 ? {} : { toolCalls: calls }) },
  ];
}

function withOneCall(base: readonly Message[]): Message[] | null {
  const turn = base.at(-1);
  const calls = turn?.toolCalls ?? [];
  if (turn === undefined || calls.length < 2) return null;
  return [...base.slice(0, -1), { ...turn, toolCalls: calls.slice(0, 1) }];
}

/** `base` synthetic messages came before those that the caller gave: their text counts as scaffold. */
function rendered(ids: readonly number[], owners: Int32Array, base: number): Rendered {
  const message = owners.map((owner) => (owner < base ? -1 : owner - base));
  return { ids: Int32Array.from(ids), content: Uint8Array.from(message, (owner) => (owner < 0 ? 0 : 1)), message };
}
