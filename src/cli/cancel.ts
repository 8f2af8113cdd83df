import { z } from "zod";
import type { ApiClient } from "./api-client.ts";
import { CliError } from "./api-client.ts";
import { WireJob } from "./wire.ts";

const WireGroup = z.object({ id: z.string(), jobs: z.array(WireJob) });

/** `rolloutd cancel ID`: a job by `job_...`, a group by `grp_...`. */
export async function cancel(client: ApiClient, id: string): Promise<void> {
  const path = encodeURIComponent(id);
  if (id.startsWith("job_")) return print([await client.post(`/v1/jobs/${path}/cancel`, WireJob)]);
  if (id.startsWith("grp_")) return print((await client.post(`/v1/groups/${path}/cancel`, WireGroup)).jobs);
  throw new CliError(`${id} is no id of a job (job_...) or a group (grp_...)`, 2);
}

function print(jobs: readonly WireJob[]): void {
  for (const job of jobs)
    console.log(`${job.id}  ${job.outcome?.status ?? job.state}: ${job.outcome?.end_reason ?? "-"}`);
}
