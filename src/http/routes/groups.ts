import type { OpenAPIHono } from "@hono/zod-openapi";
import { RequestError } from "../../errors.ts";
import { GroupWire } from "../answers.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { groupToWire } from "../to-wire.ts";

const tag = "groups";

/** Groups: the jobs of one task that are compared with each other. */
export function addGroupRoutes(app: OpenAPIHono, { store, rollouts }: AppDeps): void {
  mount(
    app,
    {
      method: "get",
      path: "/v1/groups/{id}",
      summary: "A group, its jobs and rewards",
      tag,
      answers: { 200: GroupWire },
      problems: [404],
    },
    async (c) => {
      const id = c.req.param("id") ?? "";
      const group = await store.group(id);
      if (!group) throw new RequestError("group_unknown", `there is no group ${id}`);
      return c.json(groupToWire(group));
    },
  );
  mount(
    app,
    {
      method: "post",
      path: "/v1/groups/{id}/cancel",
      summary: "Cancel every job of a group; answers once all are finished",
      tag,
      answers: { 200: GroupWire },
      problems: [404],
    },
    async (c) => c.json(groupToWire(await rollouts.cancelGroup(c.req.param("id") ?? ""))),
  );
}
