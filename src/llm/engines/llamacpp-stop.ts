import { LLM_LIMITS } from "../../limits.ts";
import type { Completion, CompletionRequest } from "../engine.ts";
import type { Http } from "../http.ts";
import { type CompletionAnswer, Content } from "./llamacpp-api.ts";

interface Step {
  request: CompletionRequest;
  progress: { ids: number[]; logprobs: number[]; end: Pick<Completion, "finishReason" | "stopReason"> | null };
  answer: CompletionAnswer;
}

/**
 * Decides whether the turn has ended with this slice and cuts away what was sampled after its end: llama.cpp knows no
 * stop ids of the caller, and sees a stop string only within one slice.
 */
export async function cutAtStop(http: Http, step: Step, signal: AbortSignal): Promise<void> {
  const { request, progress, answer } = step;
  const from = progress.ids.length - answer.tokens.length;
  const stopIds = new Set(request.stopTokenIds);
  const stopIdAt = progress.ids.findIndex((id, index) => index >= from && stopIds.has(id));
  const spanning = await stopStringAt(http, step, signal);
  if (spanning !== null && (stopIdAt < 0 || spanning.at < stopIdAt)) {
    keep(progress, spanning.at + 1);
    progress.end = { finishReason: "stop", stopReason: spanning.word };
  } else if (stopIdAt >= 0) {
    keep(progress, stopIdAt + 1);
    progress.end = { finishReason: "stop", stopReason: progress.ids[stopIdAt] ?? null };
  } else if (answer.stop_type === "eos") {
    progress.end = { finishReason: "stop", stopReason: null };
  } else if (answer.stop_type === "word") {
    progress.end = { finishReason: "stop", stopReason: answer.stopping_word };
  } else if (answer.truncated || progress.ids.length >= request.sampling.maxTokens) {
    progress.end = { finishReason: "length", stopReason: null };
  }
}

function keep(progress: Step["progress"], length: number): void {
  progress.ids.length = length;
  progress.logprobs.length = length;
}

/** The first position at which a stop string that began in an earlier slice is complete. */
async function stopStringAt(http: Http, step: Step, signal: AbortSignal): Promise<{ at: number; word: string } | null> {
  const { progress, answer } = step;
  const { stop } = step.request.sampling;
  const from = progress.ids.length - answer.tokens.length;
  if (stop.length === 0 || from === 0) return null;
  const textOf = async (length: number) => {
    const body = { tokens: progress.ids.slice(0, length) };
    return (await http.json(Content, { path: "/detokenize", ms: LLM_LIMITS.controlMs, signal, body })).content;
  };
  const wordIn = (text: string) => stop.find((word) => text.includes(word));
  if (wordIn(await textOf(progress.ids.length)) === undefined) return null;
  // The shortest prefix whose text holds a stop string; one more token never takes a string away.
  let low = from;
  let high = progress.ids.length;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (wordIn(await textOf(middle)) === undefined) low = middle + 1;
    else high = middle;
  }
  return { at: low - 1, word: wordIn(await textOf(low)) ?? "" };
}
