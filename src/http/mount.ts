import { createRoute, type OpenAPIHono, type RouteConfig, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { Problem } from "./problems.ts";

/** A route as it is documented; bodies and queries are checked by its handler (`readBody`, `readQuery`). */
export interface RouteDoc {
  method: "get" | "post" | "put" | "delete";
  /** `/v1/jobs/{id}` */
  path: string;
  summary: string;
  tag: string;
  query?: z.ZodObject;
  body?: z.ZodType;
  headers?: z.ZodObject;
  /** Status and shape of each good answer. */
  answers: Record<number, z.ZodType>;
  /** Statuses of its own problems, beside those that every route has. */
  problems?: readonly number[];
  /** Of the answers; JSON when absent. */
  contentType?: string;
}

/** Adds a route to the app and to its OpenAPI document. */
export function mount(app: OpenAPIHono, doc: RouteDoc, handle: (c: Context) => Response | Promise<Response>): void {
  const route = createRoute(toRouteConfig(doc));
  app.openAPIRegistry.registerPath(route);
  app.on(doc.method.toUpperCase(), route.getRoutingPath(), handle);
}

function toRouteConfig(doc: RouteDoc): RouteConfig {
  const names = [...doc.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? "");
  const params = z.object(Object.fromEntries(names.map((name) => [name, z.string()])));
  const contentType = doc.contentType ?? "application/json";
  const good = Object.entries(doc.answers).map(([status, schema]) => [
    status,
    { description: doc.summary, content: { [contentType]: { schema } } },
  ]);
  const bad = [400, 401, 403, 422, ...(doc.problems ?? [])].map((status) => [
    status,
    { description: "Problem", content: { "application/problem+json": { schema: Problem } } },
  ]);
  return {
    method: doc.method,
    path: doc.path,
    summary: doc.summary,
    tags: [doc.tag],
    request: {
      ...(names.length === 0 ? {} : { params }),
      ...(doc.query ? { query: doc.query } : {}),
      ...(doc.headers ? { headers: doc.headers } : {}),
      ...(doc.body ? { body: { required: true, content: { "application/json": { schema: doc.body } } } } : {}),
    },
    responses: Object.fromEntries([...good, ...bad]),
  };
}
