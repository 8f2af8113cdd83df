import type { Sampling } from "../trajectory/sampling.ts";
import type { AgentEnd } from "./agent-end.ts";

/** Bounds of RUN that the agent itself watches; its time is watched by the pipeline. */
export interface Budget {
  turnsMax: number;
  /** Sampled tokens over all turns. */
  tokensMax: number;
  /** Prompt and completion together. */
  contextTokensMax: number;
}

export interface Spent {
  turns: number;
  sampledTokens: number;
}

/** How many tokens the next turn may sample, and which bound cut it below the task's own `maxTokens`. */
export interface Room {
  maxTokens: number;
  /** The end reason when the turn runs into `maxTokens`. */
  cutBy: "tokens_max" | "context_overflow";
}

/** Room for one more turn on a prompt of `promptTokens`; an end reason when there is none. */
export function nextTurn(
  budget: Budget,
  spent: Spent,
  promptTokens: number,
  sampling: Sampling,
): Room | AgentEnd["reason"] {
  if (spent.turns >= budget.turnsMax) return "turns_max";
  const contextLeft = budget.contextTokensMax - promptTokens;
  const tokensLeft = budget.tokensMax - spent.sampledTokens;
  if (tokensLeft < 1) return "tokens_max";
  if (contextLeft < 1) return "context_overflow";
  const maxTokens = Math.min(sampling.maxTokens, tokensLeft, contextLeft);
  return {
    maxTokens,
    cutBy: maxTokens === contextLeft && contextLeft < sampling.maxTokens ? "context_overflow" : "tokens_max",
  };
}
