import type { Reason } from "../errors.ts";
import type { Message } from "../trajectory/message.ts";

/** How RUN ended by the agent's side; infrastructure failures throw instead. */
export interface AgentEnd {
  reason: Extract<
    Reason,
    | "answered"
    | "turns_max"
    | "tokens_max"
    | "context_overflow"
    | "run_timeout"
    | "format_errors"
    | "repetition"
    | "sandbox_limit"
  >;
  /** From `finish` or the last assistant message; null when there was none. */
  answer: string | null;
  messages: readonly Message[];
}
