import { assert, RolloutError } from "../errors.ts";
import { TOKEN_LIMITS } from "../limits.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import { workerUrl } from "../worker-url.ts";
import type { Rendered, Renderer } from "./renderer.ts";
import type { RenderCall, RendererFacts, RenderReply, RenderRequest, RenderValue } from "./worker-protocol.ts";

/** Renderers from tokenizer folders, all in one Worker that starts with the first `open`. */
export interface LocalRenderers extends AsyncDisposable {
  /**
   * The renderer of a folder with tokenizer.json and its chat template; the same folder is read once. Throws
   * RolloutError backend_invalid when the folder is not one.
   */
  open(folder: string): Promise<LocalRenderer>;
}

/** A renderer with its tokenizer at hand, as the parity probe needs it. */
export interface LocalRenderer extends Renderer {
  encode(text: string): Promise<Int32Array>;
}

/** `entry` is only given by tests. The Worker ends when this is disposed; calls under way are then rejected. */
export function createLocalRenderers(entry = workerUrl("tokens/worker.ts")): LocalRenderers {
  const port = new WorkerPort(entry);
  const opened = new Map<string, Promise<LocalRenderer>>();
  return {
    open(folder) {
      const known = opened.get(folder);
      if (known !== undefined) return known;
      const opening = port.facts(folder).then((facts) => new WorkerRenderer(port, folder, facts));
      opened.set(folder, opening);
      opening.catch(() => opened.delete(folder));
      return opening;
    },
    async [Symbol.asyncDispose]() {
      port.close();
    },
  };
}

class WorkerPort {
  readonly #url: URL;
  readonly #waiting = new Map<number, PromiseWithResolvers<RenderValue>>();
  #worker: Worker | null = null;
  #closed = false;
  #next = 1;

  constructor(url: URL) {
    this.#url = url;
  }

  call(call: RenderCall): Promise<RenderValue> {
    if (this.#closed) return Promise.reject(new RolloutError("backend_invalid", "the renderer is closed"));
    if (this.#waiting.size >= TOKEN_LIMITS.workerCallsMax) {
      return Promise.reject(new RolloutError("backend_invalid", "the renderer has too many calls under way"));
    }
    const request: RenderRequest = { ...call, id: this.#next++ };
    const waiter = Promise.withResolvers<RenderValue>();
    this.#waiting.set(request.id, waiter);
    this.#started().postMessage(request);
    return waiter.promise;
  }

  async facts(folder: string): Promise<RendererFacts> {
    const value = await this.call({ call: "open", folder });
    assert(typeof value === "object" && "addedTokens" in value, "open answers facts");
    return value;
  }

  close(): void {
    this.#closed = true;
    this.#worker?.terminate();
    this.#rejectAll("the renderer is closed");
  }

  #started(): Worker {
    if (this.#worker !== null) return this.#worker;
    const worker = new Worker(this.#url.href);
    worker.onmessage = (event: MessageEvent<RenderReply>) => this.#settle(event.data);
    worker.onerror = (event) => {
      // The next call starts a fresh Worker: a crash must not take rendering away for good.
      if (this.#worker === worker) this.#worker = null;
      worker.terminate();
      this.#rejectAll(`the renderer's Worker crashed: ${event.message}`);
    };
    this.#worker = worker;
    return worker;
  }

  #settle(reply: RenderReply): void {
    const waiter = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (reply.ok) waiter?.resolve(reply.value);
    else waiter?.reject(new RolloutError(reply.reason ?? "backend_invalid", reply.detail));
  }

  #rejectAll(detail: string): void {
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const waiter of waiting) waiter.reject(new RolloutError("backend_invalid", detail));
  }
}

class WorkerRenderer implements LocalRenderer {
  readonly kind = "local";
  readonly tokenizerHash: string;
  readonly templateHash: string;
  readonly endIds: readonly number[];
  readonly #port: WorkerPort;
  readonly #folder: string;
  readonly #addedTokens: ReadonlyMap<string, number>;

  constructor(port: WorkerPort, folder: string, facts: RendererFacts) {
    this.#port = port;
    this.#folder = folder;
    this.tokenizerHash = facts.tokenizerHash;
    this.templateHash = facts.templateHash;
    this.endIds = facts.endIds;
    this.#addedTokens = new Map(facts.addedTokens);
  }

  async renderPrompt(messages: readonly Message[], tools: readonly ToolSchema[]): Promise<Rendered> {
    return asRendered(await this.#port.call({ call: "prompt", folder: this.#folder, messages, tools }));
  }

  async renderDelta(added: readonly Message[], tools: readonly ToolSchema[], endedByModel: boolean): Promise<Rendered> {
    return asRendered(await this.#port.call({ call: "delta", folder: this.#folder, added, tools, endedByModel }));
  }

  async decode(ids: Int32Array, keepSpecial: boolean): Promise<string> {
    const value = await this.#port.call({ call: "decode", folder: this.#folder, ids, keepSpecial });
    assert(typeof value === "string", "decode answers text");
    return value;
  }

  async encode(text: string): Promise<Int32Array> {
    const value = await this.#port.call({ call: "encode", folder: this.#folder, text });
    assert(value instanceof Int32Array, "encode answers ids");
    return value;
  }

  markerId(marker: string): number | null {
    return this.#addedTokens.get(marker) ?? null;
  }
}

function asRendered(value: RenderValue): Rendered {
  assert(typeof value === "object" && "content" in value, "a rendering has ids and their owners");
  return value;
}
