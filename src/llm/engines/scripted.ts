import { createHash } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { RolloutError } from "../../errors.ts";
import { TemplateRenderer } from "../../tokens/template-renderer.ts";
import type { Completion, CompletionRequest, Engine } from "../engine.ts";
import { invalid } from "../fault.ts";
import { createScriptedSource, decodeScripted, encodeScripted, SCRIPTED_END_ID } from "./scripted-source.ts";

/** What goes wrong with one call: the connection breaks, it never answers, or it answers what no server may. */
export type ScriptedFault = "die" | "hang" | "error500" | "lengths" | "nan" | "abort" | "empty";

/** One call as the script sees it. */
export interface ScriptedCall {
  /** The whole prompt with its markers. */
  prompt: string;
  /** Text between the last `<|start|>ROLE\n` that is not the generation prompt, and its `<|end|>`. */
  lastMessage: string;
  request: CompletionRequest;
  /** Calls answered by this engine before this one. */
  index: number;
}

export interface ScriptedOptions {
  clock: Clock;
  /** The turn's text; markers in it become their ids, and the end token follows unless `maxTokens` cuts it off. */
  script: (call: ScriptedCall) => string;
  model?: string;
  contextTokensMax?: number;
  slots?: number | null;
  logprobsMode?: "raw" | "processed";
  /** What distinguishes the weights of two scripted models. */
  weights?: string;
  latencyMs?: number;
  /** Asked before each call, probe and health question; null lets it pass. */
  fault?: (what: "complete" | "probe" | "healthy", index: number) => ScriptedFault | null;
}

/** A model that answers what it is told to, with a tokenizer of bytes: deterministic, for tests and trials. */
export function createScriptedEngine(options: ScriptedOptions): Engine {
  const renderer = new TemplateRenderer(createScriptedSource());
  const fault = options.fault ?? (() => null);
  let calls = 0;
  return {
    kind: "scripted",
    async probe(signal) {
      await misbehave(fault("probe", calls), signal);
      return {
        kind: "scripted",
        version: null,
        model: options.model ?? "scripted",
        contextTokensMax: options.contextTokensMax ?? 32_768,
        slots: options.slots ?? null,
        kvTokens: null,
        logprobsMode: options.logprobsMode ?? "processed",
        renderer: "local",
        endpoint: "scripted",
        tokenExact: true,
        tellsVersions: false,
        abort: null,
        weights: null,
        streamInterval: false,
        devMode: null,
        notes: ["answers come from a script, not from a model"],
        weightsIdentity: createHash("sha256")
          .update(`scripted ${options.weights ?? ""}`)
          .digest("hex"),
      };
    },
    async complete(request, signal) {
      const start = performance.now();
      const index = calls;
      calls += 1;
      const found = fault("complete", index);
      if (options.latencyMs !== undefined) await options.clock.sleep(options.latencyMs, signal);
      signal.throwIfAborted();
      await misbehave(found, signal);
      const prompt = decodeScripted(Array.from(request.ids), true);
      const text = options.script({ prompt, lastMessage: lastMessageOf(prompt), request, index });
      return spoil(answer(text, request, performance.now() - start), found);
    },
    healthy: async (signal) => {
      const found = fault("healthy", calls);
      if (found === "hang") await misbehave(found, signal).catch(() => {});
      return found === null;
    },
    remoteRenderer: async () => renderer,
  };
}

function answer(text: string, request: CompletionRequest, ms: number): Completion {
  const whole = [...encodeScripted(text.toWellFormed()).ids, SCRIPTED_END_ID];
  const stopAt = whole.findIndex((id) => request.stopTokenIds.includes(id));
  const ended = stopAt < 0 ? whole : whole.slice(0, stopAt + 1);
  const ids = Int32Array.from(ended.slice(0, request.sampling.maxTokens));
  return {
    ids,
    logprobs: Float32Array.from(ids, (id, index) => -((id + index) % 16) / 16),
    finishReason: ids.length < ended.length ? "length" : "stop",
    stopReason: null,
    versions: [],
    cachedTokens: null,
    firstTokenMs: ms,
    generationMs: ms,
    endpoint: "scripted",
  };
}

async function misbehave(fault: ScriptedFault | null, signal: AbortSignal): Promise<void> {
  if (fault === "die") throw new RolloutError("backend_unreachable", "the scripted engine is dead");
  if (fault === "error500") throw invalid("scripted", "500 internal error");
  if (fault !== "hang") return;
  await new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
  throw signal.reason;
}

function spoil(completion: Completion, fault: ScriptedFault | null): Completion {
  if (fault === "lengths") return { ...completion, logprobs: completion.logprobs.slice(1) };
  if (fault === "nan")
    return { ...completion, logprobs: completion.logprobs.map((value, at) => (at === 0 ? Number.NaN : value)) };
  if (fault === "empty") return { ...completion, ids: new Int32Array(0), logprobs: new Float32Array(0) };
  if (fault === "abort") {
    return {
      ...completion,
      ids: completion.ids.slice(0, 1),
      logprobs: completion.logprobs.slice(0, 1),
      finishReason: "abort",
    };
  }
  return completion;
}

function lastMessageOf(prompt: string): string {
  const parts = prompt.split("<|start|>").slice(0, -1);
  const last = parts.at(-1) ?? "";
  return last.slice(last.indexOf("\n") + 1, last.lastIndexOf("<|end|>"));
}
