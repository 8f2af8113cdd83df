import { STATES, type State } from "../../job/state.ts";
import type { VerbContext } from "../context.ts";
import { once } from "../once.ts";
import { jobCounts } from "../tables.ts";

/** Jobs in each state, from the counters: its cost does not grow with the number of jobs. */
export function countJobs(context: VerbContext): Record<State, number> {
  const counted = new Map(
    selectCounts(context.db)
      .all()
      .map((row) => [row.state, row.jobs]),
  );
  return Object.fromEntries(STATES.map((state) => [state, counted.get(state) ?? 0])) as Record<State, number>;
}

const selectCounts = once((db) => db.select().from(jobCounts).prepare());
