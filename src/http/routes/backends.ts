import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { BackendWire } from "../answers.ts";
import { readBody, readQuery } from "../body.ts";
import type { AppDeps } from "../deps.ts";
import { toBackendSpec } from "../from-wire.ts";
import { mount } from "../mount.ts";
import { BackendSpecWire, RemoveQuery } from "../schemas.ts";
import { backendToWire } from "../to-wire.ts";

const tag = "backends";

/** The LLM servers that jobs are sent to. */
export function addBackendRoutes(app: OpenAPIHono, { backends }: AppDeps): void {
  mount(
    app,
    {
      method: "post",
      path: "/v1/backends",
      summary: "Register an LLM server, probed first unless probe is false; 200 when its url is known",
      tag,
      body: BackendSpecWire,
      answers: { 201: BackendWire, 200: BackendWire },
      problems: [409],
    },
    async (c) => {
      const { value } = await readBody(c, BackendSpecWire);
      const { backend, created } = await backends.add(toBackendSpec(value), { probe: value.probe });
      return c.json(backendToWire(backend), created ? 201 : 200);
    },
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/backends",
      summary: "All LLM servers",
      tag,
      answers: { 200: z.object({ backends: z.array(BackendWire) }) },
    },
    (c) => c.json({ backends: backends.list().map(backendToWire) }),
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/backends/{id}",
      summary: "An LLM server, its state, profile and load",
      tag,
      answers: { 200: BackendWire },
      problems: [404],
    },
    (c) => c.json(backendToWire(backends.get(idOf(c)))),
  );
  mount(
    app,
    {
      method: "post",
      path: "/v1/backends/{id}/probe",
      summary: "Probe again",
      tag,
      answers: { 200: BackendWire },
      problems: [404],
    },
    async (c) => c.json(backendToWire(await backends.probe(idOf(c)))),
  );
  mount(
    app,
    {
      method: "post",
      path: "/v1/backends/{id}/drain",
      summary: "Send it no new jobs",
      tag,
      answers: { 200: BackendWire },
      problems: [404],
    },
    async (c) => c.json(backendToWire(await backends.drain(idOf(c)))),
  );
  mount(
    app,
    {
      method: "delete",
      path: "/v1/backends/{id}",
      summary: "Forget an LLM server; force=true moves the jobs that stick to it",
      tag,
      query: RemoveQuery,
      answers: { 204: z.null() },
      problems: [404, 409],
    },
    async (c) => {
      const { force = false } = readQuery(c, RemoveQuery);
      await backends.remove(idOf(c), { force });
      return c.body(null, 204);
    },
  );
}

function idOf(c: Context): string {
  return c.req.param("id") ?? "";
}
