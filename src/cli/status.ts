import { z } from "zod";
import type { ApiClient } from "./api-client.ts";
import { formatTable } from "./table.ts";

const Status = z.looseObject({
  version: z.string(),
  uptime_s: z.number(),
  jobs: z.record(z.string(), z.number()),
  pools: z.record(z.string(), z.object({ slots: z.number(), busy: z.number() })),
  sandboxes: z.looseObject({
    live: z.number(),
    warm: z.number(),
    memory_limit_of: z.enum(["sandbox", "process"]),
    budget: z.object({ max: z.number() }),
  }),
  backends: z.array(
    z.looseObject({
      id: z.string(),
      url: z.string(),
      model: z.string().nullable(),
      state: z.string(),
      load: z.looseObject({ jobs: z.number(), turns: z.number() }),
    }),
  ),
  results: z.object({ first: z.number(), last: z.number() }),
});

/** `rolloutd status`: the numbers of /v1/status as a table. */
export async function printStatus(client: ApiClient): Promise<void> {
  const status = await client.get("/v1/status", Status);
  console.log(`rolloutd ${status.version} at ${client.url}, up ${Math.round(status.uptime_s)} s`);
  console.log(formatTable(Object.entries(status.jobs)));
  const pools = Object.entries(status.pools).map(([name, pool]) => [
    `${name.toUpperCase()} slots`,
    `${pool.busy} of ${pool.slots} busy`,
  ]);
  const { live, warm, budget, memory_limit_of: limited } = status.sandboxes;
  const memory = limited === "sandbox" ? "of each sandbox" : "of each process alone: no cgroups, see rolloutd doctor";
  const sandboxes = `${live} of ${budget.max} live, ${warm} warm for the next jobs`;
  console.log(formatTable([...pools, ["sandboxes", sandboxes], ["memory limit", memory]]));
  const { first, last } = status.results;
  console.log(`results     ${last < first ? "none" : `${first}..${last}`}`);
  const rows = status.backends.map(({ id, state, model, url, load }) => [
    id,
    state,
    model ?? "-",
    url,
    load.jobs,
    load.turns,
  ]);
  console.log(
    rows.length === 0
      ? "no backend; add one with: rolloutd backend add URL"
      : formatTable([["backend", "state", "model", "url", "jobs", "turns"], ...rows]),
  );
}
