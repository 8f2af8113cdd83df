import { OpenAPIHono } from "@hono/zod-openapi";
import type { MiddlewareHandler } from "hono";
import { routePath } from "hono/route";
import { RequestError } from "../errors.ts";
import { Supervisor } from "../supervisor.ts";
import type { AppDeps } from "./deps.ts";
import { guard } from "./guard.ts";
import { answerError } from "./problems.ts";
import { addBackendRoutes } from "./routes/backends.ts";
import { addConsumerRoutes } from "./routes/consumers.ts";
import { addDocRoutes } from "./routes/docs.ts";
import { addEventRoutes } from "./routes/events.ts";
import { addGroupRoutes } from "./routes/groups.ts";
import { addImageRoutes } from "./routes/images.ts";
import { addJobRoutes } from "./routes/jobs.ts";
import { addResultRoutes } from "./routes/results.ts";
import { addServiceRoutes } from "./routes/service.ts";
import { addTrajectoryRoutes } from "./routes/trajectory.ts";

/**
 * The API as one app, that `startHttp` listens with and tests ask directly. `drain` resolves when every event stream
 * has ended, which they do once `deps.closing` has aborted.
 */
export function createApp(deps: AppDeps): { app: OpenAPIHono; drain: () => Promise<void> } {
  const app = new OpenAPIHono();
  const streams = new Supervisor(deps.log);
  app.onError((error, c) => answerError(c, error, deps.log));
  app.notFound((c) => {
    const unknown = new RequestError("route_unknown", `there is no ${c.req.path}; /docs lists what there is`);
    return answerError(c, unknown, deps.log);
  });
  app.use(measure(deps), guard(deps.auth));
  addJobRoutes(app, deps);
  addGroupRoutes(app, deps);
  addTrajectoryRoutes(app, deps);
  addResultRoutes(app, deps);
  addConsumerRoutes(app, deps);
  addEventRoutes(app, deps, streams);
  addBackendRoutes(app, deps);
  addImageRoutes(app, deps);
  addServiceRoutes(app, deps);
  addDocRoutes(app, deps.version);
  refuseOtherMethods(app);
  return { app, drain: () => streams.drain() };
}

/** A known path with another method is 405, not 404. Comes after all routes, so that it takes what they left. */
function refuseOtherMethods(app: OpenAPIHono): void {
  const routes = app.routes.filter(({ method, path }) => method !== "ALL" && path !== "/*");
  for (const [path, known] of Map.groupBy(routes, (route) => route.path)) {
    const allow = [...new Set(known.map((route) => route.method))].join(", ");
    app.all(path, (c) => {
      c.header("Allow", allow);
      throw new RequestError("method_refused", `${c.req.path} takes ${allow}, not ${c.req.method}`);
    });
  }
}

function measure({ metrics }: AppDeps): MiddlewareHandler {
  return async (c, next) => {
    const startedMs = performance.now();
    await next();
    metrics.httpAnswered({
      method: c.req.method,
      route: routePath(c, -1),
      status: c.res.status,
      ms: performance.now() - startedMs,
    });
  };
}
