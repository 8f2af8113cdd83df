import { z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { REQUEST_REASONS, RequestError } from "../errors.ts";
import type { Log } from "../log.ts";

/** RFC 9457, with a stable `reason` to branch on. */
export const Problem = z
  .object({
    type: z.literal("about:blank"),
    title: z.string(),
    status: z.int(),
    reason: z.string().openapi({ description: "stable name of what is wrong", example: "field_invalid" }),
    detail: z.string(),
    errors: z.array(z.object({ path: z.string(), message: z.string(), accepted: z.string().optional() })).optional(),
  })
  .openapi("Problem");

/** How long a client that met a bound should wait before it asks again. */
const RETRY_AFTER_SECONDS = "1";

/** The answer to whatever a route threw. What is not the caller's fault is a bug of ours: logged, and a bare 500. */
export function answerError(c: Context, error: unknown, log: Log): Response {
  if (error instanceof RequestError) return problemOf(c, error);
  if (error instanceof HTTPException) return error.getResponse();
  log.error("http:failed", { method: c.req.method, path: c.req.path, error });
  return problem(c, 500, { reason: "internal", detail: "the server failed; its log says why" });
}

function problemOf(c: Context, error: RequestError): Response {
  const status = REQUEST_REASONS[error.reason];
  if (status === 429) c.header("Retry-After", RETRY_AFTER_SECONDS);
  if (status === 401) c.header("WWW-Authenticate", "Bearer");
  const errors = error.faults.length === 0 ? {} : { errors: error.faults };
  return problem(c, status, { reason: error.reason, detail: error.detail, ...errors, ...error.members });
}

/** A problem document; `members` are its own beside type, title and status. */
export function problem(
  c: Context,
  status: ContentfulStatusCode,
  members: { reason: string; detail: string; [member: string]: unknown },
): Response {
  const words = members.reason.replaceAll("_", " ");
  const title = words.charAt(0).toUpperCase() + words.slice(1);
  c.header("Content-Type", "application/problem+json");
  return c.body(JSON.stringify({ type: "about:blank", title, status, ...members }), status);
}
