/**
 * A job's states and the legal moves between them (design section 3).
 *
 *   queued -> initializing -> ready -> running -> awaiting_eval -> evaluating -> finished
 *
 * Back to queued: an attempt ended by infrastructure and another is due. Back to awaiting_eval: EVAL alone is
 * repeated. From anywhere to finished: cancelled, or failed for good. `finished` is never left.
 */
export const STATES = [
  "queued",
  "initializing",
  "ready",
  "running",
  "awaiting_eval",
  "evaluating",
  "finished",
] as const;
export type State = (typeof STATES)[number];
export type Stage = "init" | "run" | "eval";

const MOVES: Record<State, readonly State[]> = {
  queued: ["initializing", "finished"],
  initializing: ["ready", "queued", "finished"],
  ready: ["running", "queued", "finished"],
  running: ["awaiting_eval", "queued", "finished"],
  awaiting_eval: ["evaluating", "finished"],
  evaluating: ["finished", "awaiting_eval"],
  finished: [],
};

/** True when a job may go from one state to the other in one step. */
export function isLegalMove(from: State, to: State): boolean {
  return MOVES[from].includes(to);
}

/** States whose work is held by a live server: after a crash nothing of them is left but the row. */
export const LIVE_STATES: readonly State[] = ["initializing", "ready", "running", "evaluating"];
