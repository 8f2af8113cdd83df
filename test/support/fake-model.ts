import { decodeScripted, encodeScripted, SCRIPTED_END_ID } from "../../src/llm/engines/scripted-source.ts";
import type { ToolSchema } from "../../src/trajectory/message.ts";

/** What a fake server does wrong with one request for tokens. */
export type FakeFault = "die" | "hang" | "error500" | "overload" | "lengths" | "nan" | "abort" | "garbage" | null;

export interface FakeOptions {
  /** The turn's text by the prompt's text; the end token follows. Default: a short answer with an emoji. */
  script?: (prompt: string) => string;
  /** Asked for each request for tokens, counted from 0 with those of the probe, and its body. */
  fault?: (index: number, body: Readonly<Record<string, unknown>>) => FakeFault;
  model?: string;
  contextTokens?: number;
  /** Distinguishes the weights of two servers. */
  size?: number;
}

/** What a fake server has seen. */
export interface FakeServer extends AsyncDisposable {
  url: string;
  /** Bodies of the requests for tokens, in order. */
  bodies: Record<string, unknown>[];
  /** Headers of the same requests. */
  headers: Headers[];
  /** Requests for tokens that are being worked on. */
  inFlight(): number;
  /** Requests whose client went away before the answer. */
  disconnects(): number;
}

/** The whole turn by ids, as the fakes sample it: from the prompt's beginning, so slices go on where they stopped. */
export function fakeTurn(options: FakeOptions, ids: readonly number[]): number[] {
  const prompt = decodeScripted(ids, true);
  const at = prompt.lastIndexOf("<|start|>assistant\n");
  const start = at < 0 ? prompt : prompt.slice(0, at + "<|start|>assistant\n".length);
  const text = (options.script ?? (() => "Hi 😀 there."))(start);
  const whole = [...encodeScripted(text).ids, SCRIPTED_END_ID];
  const done = encodeScripted(prompt.slice(start.length)).ids.length;
  return whole.slice(done);
}

/** Log-prob of an id at its place; depends on both, so a wrong alignment is seen. */
export function fakeLogprob(id: number, promptTokens: number): number {
  return -((id * 7 + promptTokens) % 101) / 50 - 0.01;
}

/** Settles when the client of `request` goes away. */
export function goneAway(request: Request): Promise<void> {
  return new Promise((resolve) => {
    if (request.signal.aborted) resolve();
    else request.signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** An answer that begins and then breaks off: the client sees a reset connection. */
export function cutConnection(): Response {
  const body = new ReadableStream({
    async pull(controller) {
      controller.enqueue(new TextEncoder().encode("data: {"));
      await new Promise((resolve) => setImmediate(resolve));
      controller.error(new Error("the fake server dies"));
    },
  });
  return new Response(body);
}

/** Tools of a request as the scripted template takes them: without the envelope that the API has around each. */
export function unwrapTools(tools: readonly { function: ToolSchema }[] | undefined): ToolSchema[] {
  return (tools ?? []).map((tool) => tool.function);
}
