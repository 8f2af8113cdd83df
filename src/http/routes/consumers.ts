import { type OpenAPIHono, z } from "@hono/zod-openapi";
import { RequestError } from "../../errors.ts";
import { ConsumerWire } from "../answers.ts";
import { readBody } from "../body.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { ConsumerPutWire } from "../schemas.ts";
import { consumerToWire } from "../to-wire.ts";

const tag = "results";
const NAME_CHARS_MAX = 256;

/** A consumer's place in the results log. */
export function addConsumerRoutes(app: OpenAPIHono, { store }: AppDeps): void {
  mount(
    app,
    {
      method: "put",
      path: "/v1/consumers/{name}",
      summary: "Commit how far a consumer came; durable when answered",
      tag,
      body: ConsumerPutWire,
      answers: { 200: ConsumerWire },
    },
    async (c) => {
      const name = c.req.param("name") ?? "";
      if (name.length > NAME_CHARS_MAX) {
        throw new RequestError("field_invalid", `the name has ${name.length} characters`, [
          { path: "name", message: "is too long", accepted: `string of at most ${NAME_CHARS_MAX} characters` },
        ]);
      }
      const { value } = await readBody(c, ConsumerPutWire);
      return c.json(consumerToWire(await store.putConsumer(name, value.committed)));
    },
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/consumers",
      summary: "All consumers",
      tag,
      answers: { 200: z.object({ consumers: z.array(ConsumerWire) }) },
    },
    async (c) => c.json({ consumers: (await store.consumers()).map(consumerToWire) }),
  );
  mount(
    app,
    {
      method: "delete",
      path: "/v1/consumers/{name}",
      summary: "Forget a consumer",
      tag,
      answers: { 204: z.null() },
      problems: [404],
    },
    async (c) => {
      const name = c.req.param("name") ?? "";
      if (await store.deleteConsumer(name)) return c.body(null, 204);
      throw new RequestError("consumer_unknown", `there is no consumer ${JSON.stringify(name)}`);
    },
  );
}
