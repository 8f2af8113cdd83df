import type { OpenAPIHono } from "@hono/zod-openapi";
import { RequestError } from "../../errors.ts";
import { TrajectoryWire } from "../answers.ts";
import { readQuery } from "../body.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { TrajectoryQuery } from "../schemas.ts";
import { trajectoryToWire } from "../trajectory-wire.ts";

/** What a job yields. */
export function addTrajectoryRoutes(app: OpenAPIHono, { store }: AppDeps): void {
  mount(
    app,
    {
      method: "get",
      path: "/v1/jobs/{id}/trajectory",
      summary: "The trajectory of a finished job; partial=true gives what there is of an unfinished one",
      tag: "trajectories",
      query: TrajectoryQuery,
      answers: { 200: TrajectoryWire },
      problems: [404, 409],
    },
    async (c) => {
      const { partial = false } = readQuery(c, TrajectoryQuery);
      const id = c.req.param("id") ?? "";
      const stored = await store.trajectory(id);
      const job = stored?.job ?? (await store.job(id));
      if (!job) throw new RequestError("job_unknown", `there is no job ${id}`);
      if (job.state !== "finished" && !partial) {
        throw new RequestError("job_unfinished", `job ${id} is ${job.state}; partial=true gives what there is so far`);
      }
      if (!stored) throw new RequestError("job_unfinished", `job ${id} was never begun: it has no trajectory`);
      return c.json(trajectoryToWire(stored));
    },
  );
}
