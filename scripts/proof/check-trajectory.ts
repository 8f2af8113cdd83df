import type { NativeTrajectory } from "../../src/formats/native.ts";
import type { Recorded } from "./recording-proxy.ts";

/** Float32 and batches of other sizes leave differences of 1e-5; other ids or weights leave differences above 0.01. */
export const LOGPROB_DIFFERENCE_MAX = 1e-3;
const SCORE_MS_MAX = 300_000;

/** What a check of trajectories came to. */
export interface Checked {
  branches: number;
  turns: number;
  /** Tokens whose log-prob was compared. */
  sampledTokens: number;
  /** Between a stored log-prob and the one the server gives again. */
  differenceMax: number;
  /** In words, one for each thing that is not as it must be; empty when all is well. */
  faults: string[];
}

/**
 * Every branch against the server: it scores the whole sequence again, and each sampled token must have the log-prob
 * that was stored. `answers` are what the server said when it sampled: prompt, ids and log-probs of each turn must
 * stand in the branch element by element; null where nobody wrote them down.
 */
export async function checkTrajectory(
  trajectory: NativeTrajectory,
  server: { url: string; model: string; answers: ReadonlyMap<string, Recorded> | null },
): Promise<Checked> {
  const checked: Checked = { branches: 0, turns: 0, sampledTokens: 0, differenceMax: 0, faults: [] };
  for (const branch of trajectory.branches) {
    const name = `${trajectory.task_id} ${trajectory.job_id} branch ${branch.id}`;
    checked.branches += 1;
    for (const turn of branch.turns) {
      checked.turns += 1;
      if (server.answers === null) continue;
      const fault = answerFault(branch, turn, server.answers.get(turn.request_id));
      if (fault !== null) checked.faults.push(`${name} turn ${turn.index}: ${fault}`);
    }
    const again = await score(server, branch.token_ids);
    for (const [at, mask] of branch.loss_mask.entries()) {
      if (mask === 0) continue;
      checked.sampledTokens += 1;
      const difference = Math.abs((again[at] ?? Number.NaN) - (branch.logprobs[at] ?? Number.NaN));
      checked.differenceMax = Math.max(checked.differenceMax, difference);
      // NaN is no difference below the limit either.
      if (!(difference <= LOGPROB_DIFFERENCE_MAX)) {
        checked.faults.push(`${name} token ${at}: stored ${branch.logprobs[at]}, scored again ${again[at]}`);
      }
    }
  }
  return checked;
}

/** The sum of what single checks came to. */
export function addChecked(left: Checked, right: Checked): Checked {
  return {
    branches: left.branches + right.branches,
    turns: left.turns + right.turns,
    sampledTokens: left.sampledTokens + right.sampledTokens,
    differenceMax: Math.max(left.differenceMax, right.differenceMax),
    faults: [...left.faults, ...right.faults],
  };
}

/** Nothing checked yet. */
export const NOTHING_CHECKED: Checked = { branches: 0, turns: 0, sampledTokens: 0, differenceMax: 0, faults: [] };

type Branch = NativeTrajectory["branches"][number];

function answerFault(branch: Branch, turn: Branch["turns"][number], answer: Recorded | undefined): string | null {
  if (answer === undefined) return `the server was never asked ${turn.request_id}`;
  const { start, end } = turn;
  if (!isSame(branch.token_ids.slice(0, start), answer.prompt)) return "the prompt is not the one that was sent";
  if (!isSame(branch.token_ids.slice(start, end), answer.ids)) return "the ids are not those that the server returned";
  const logprobs = answer.logprobs.map((value) => Math.min(0, Math.fround(value)));
  const stored = branch.logprobs.slice(start, end).map(Math.fround);
  // A token that a parent branch has trained stands with 0 in this one.
  const own = branch.loss_mask.slice(start, end).every((mask) => mask === 1);
  if (own && !isSame(stored, logprobs)) return "the log-probs are not those that the server returned";
  return turn.finish_reason === answer.finishReason ? null : `it ended with ${answer.finishReason} on the server`;
}

function isSame(left: readonly number[], right: readonly number[]): boolean {
  return left.length === right.length && left.every((value, at) => value === right[at]);
}

interface Scored {
  choices: { prompt_logprobs: (Record<string, { logprob: number }> | null)[] }[];
}

/** The log-prob of each token of a sequence; NaN for the first, which nothing stands before. */
async function score(server: { url: string; model: string }, ids: readonly number[]): Promise<number[]> {
  const response = await fetch(`${server.url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: server.model, prompt: ids, max_tokens: 1, temperature: 1, prompt_logprobs: 0 }),
    signal: AbortSignal.timeout(SCORE_MS_MAX),
  });
  if (!response.ok) throw new Error(`scoring ${ids.length} tokens: ${response.status} ${await response.text()}`);
  const entries = ((await response.json()) as Scored).choices[0]?.prompt_logprobs ?? [];
  return ids.map((id, at) => entries[at]?.[String(id)]?.logprob ?? Number.NaN);
}
