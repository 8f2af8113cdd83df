/** The only place that reads meaning into statuses, error texts and thrown errors of LLM servers. */
import { RolloutError } from "../errors.ts";
import { LLM_LIMITS } from "../limits.ts";

/** Three families of vLLM's message, llama.cpp's type, SGLang's wording. */
const CONTEXT_FULL = /context length|maximum model length|context size|exceed_context_size/i;
/** A log-prob that is not finite makes vLLM's own JSON fail. */
const NOT_FINITE = /out of range float values/i;

/** What an answer with an error status means for the turn that asked. */
export function faultOfStatus(status: number, body: string, what: string): RolloutError {
  const detail = `${what}: ${status} ${shorten(messageOf(body))}`;
  if (status === 400 && CONTEXT_FULL.test(body)) return new RolloutError("context_overflow", detail);
  if (status === 408 || status === 504) return new RolloutError("backend_timeout", detail);
  if (status === 429 || status === 502 || status === 503) return new RolloutError("backend_unreachable", detail);
  if (NOT_FINITE.test(body)) return new RolloutError("backend_invalid", `${detail} (a log-prob is not finite)`);
  return new RolloutError("backend_invalid", detail);
}

/** What a failed exchange means: errors of ours stay, an abort by the caller stays, all else is a lost connection. */
export function faultOfThrown(error: unknown, signal: AbortSignal, what: string): unknown {
  if (error instanceof RolloutError) return error;
  if (signal.aborted) return signal.reason;
  const text = error instanceof Error ? error.message : String(error);
  return new RolloutError("backend_unreachable", `${what}: ${shorten(text)}`, { cause: error });
}

/** The answer is not what this server's routes are documented to give. */
export function invalid(what: string, detail: string): RolloutError {
  return new RolloutError("backend_invalid", `${what}: ${shorten(detail)}`);
}

/** Whether another backend may answer what this one did not. */
export function isBackendFault(error: unknown): error is RolloutError {
  return (
    error instanceof RolloutError &&
    (error.reason === "backend_unreachable" || error.reason === "backend_invalid" || error.reason === "backend_timeout")
  );
}

function messageOf(body: string): string {
  try {
    const parsed: unknown = JSON.parse(body);
    const error = field(parsed, "error") ?? parsed;
    const message = field(error, "message") ?? field(error, "detail") ?? error;
    return typeof message === "string" ? message : JSON.stringify(message);
  } catch {
    return body;
  }
}

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function shorten(text: string): string {
  return text.length <= LLM_LIMITS.errorCharsMax ? text : `${text.slice(0, LLM_LIMITS.errorCharsMax)}…`;
}
