import type { OpenAPIHono } from "@hono/zod-openapi";
import stylePath from "swagger-ui-dist/swagger-ui.css" with { type: "file" };
import bundlePath from "swagger-ui-dist/swagger-ui-bundle.js" with { type: "file" };
import { taskSchema } from "../../pipeline/handler-info.ts";

const SCRIPT = 'SwaggerUIBundle({ url: "/openapi.json", dom_id: "#docs", deepLinking: true });\n';
const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>rolloutd API</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`;
const ABOUT = `Rollout server for reinforcement learning of LLM agents.

1. \`POST /v1/backends\` names an LLM server; \`POST /v1/jobs\` submits a task as a group of \`n\` jobs. What got a 202 is durable.
2. \`GET /v1/jobs/{id}?wait_s=30\` waits for one; \`GET /v1/results?after=0&wait_s=30\` gives each finished job once, in order, with its trajectory. Go on with \`after\` = \`next\`.
3. In a trajectory \`token_ids\`, \`loss_mask\`, \`logprobs\` of a branch have one length; the mask is 1 where the policy sampled. \`outcome.reward\` is null unless a grader gave it.

A refusal is \`application/problem+json\`: branch on its \`reason\`. Event streams are SSE with the events \`state\`, \`turn\`, \`tool\`, \`finished\`. Where the server has a token file, send \`Authorization: Bearer TOKEN\`. Fields of a task that the schema does not name are kept and have no effect.`;
// The page loads nothing from elsewhere: it works on a machine without a network.
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'none'";

/** The OpenAPI document, and a page that shows it. */
export function addDocRoutes(app: OpenAPIHono, version: string): void {
  app.openAPIRegistry.registerComponent("schemas", "Task", taskSchema());
  let document: object | null = null;
  app.get("/openapi.json", (c) => {
    document ??= app.getOpenAPI31Document({
      openapi: "3.1.0",
      info: {
        title: "rolloutd",
        version,
        description: ABOUT,
      },
    });
    return c.json(document);
  });
  app.get("/", (c) => c.redirect("/docs"));
  app.get("/docs", (c) => {
    c.header("Content-Security-Policy", POLICY);
    return c.html(PAGE);
  });
  app.get("/docs/start.js", () => new Response(SCRIPT, { headers: { "content-type": "text/javascript" } }));
  app.get("/docs/swagger-ui-bundle.js", () => embedded(bundlePath, "text/javascript"));
  app.get("/docs/swagger-ui.css", () => embedded(stylePath, "text/css"));
}

function embedded(path: string, type: string): Response {
  return new Response(Bun.file(path), { headers: { "content-type": type, "cache-control": "max-age=3600" } });
}
