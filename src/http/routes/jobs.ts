import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { RequestError } from "../../errors.ts";
import { LIMITS } from "../../limits.ts";
import { JobsWire, JobWire } from "../answers.ts";
import { rawQuery, readBody, readQuery } from "../body.ts";
import type { AppDeps } from "../deps.ts";
import { parseWith } from "../faults.ts";
import { tasksOf, toJobRequest } from "../from-wire.ts";
import { mount } from "../mount.ts";
import { JobQuery, JobsQuery, SubmittedWire, SubmitWire } from "../schemas.ts";
import { jobToWire } from "../to-wire.ts";

const tag = "jobs";
const PAGE_ROWS = 100;
const KEY_CHARS_MAX = 256;
const LABEL = "label.";

/** Submitting, reading, listing and cancelling jobs, and the files they left. */
export function addJobRoutes(app: OpenAPIHono, deps: AppDeps): void {
  const headers = z.object({ "Idempotency-Key": z.string().max(KEY_CHARS_MAX).optional() });
  mount(
    app,
    {
      method: "post",
      path: "/v1/jobs",
      summary: "Submit a task as a group of jobs, or several tasks; 200 when the key was used before",
      tag,
      headers,
      body: SubmitWire,
      answers: { 202: SubmittedWire, 200: SubmittedWire },
      problems: [409, 413, 429],
    },
    (c) => submit(c, deps),
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/jobs",
      summary: "List jobs; label.NAME=VALUE filters by label",
      tag,
      query: JobsQuery,
      answers: { 200: JobsWire },
    },
    (c) => list(c, deps),
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/jobs/{id}",
      summary: "A job; wait_s waits until it is finished",
      tag,
      query: JobQuery,
      answers: { 200: JobWire },
      problems: [404],
    },
    async (c) => {
      const { wait_s = 0 } = readQuery(c, JobQuery);
      const signal = AbortSignal.any([c.req.raw.signal, deps.closing]);
      return c.json(jobToWire(await deps.rollouts.waitForJob(idOf(c), wait_s * 1_000, signal)));
    },
  );
  mount(
    app,
    {
      method: "post",
      path: "/v1/jobs/{id}/cancel",
      summary: "Cancel; answers once the job is finished",
      tag,
      answers: { 200: JobWire },
      problems: [404],
    },
    async (c) => c.json(jobToWire(await deps.rollouts.cancelJob(idOf(c)))),
  );
  mount(
    app,
    {
      method: "get",
      path: "/v1/jobs/{id}/artifacts/{name}",
      summary: "Bytes of a file that RUN left, or that a tool kept: a whole output, a figure",
      tag,
      answers: { 200: z.string().openapi({ format: "binary" }) },
      problems: [404],
      contentType: "application/octet-stream",
    },
    (c) => artifact(c, deps),
  );
}

async function submit(c: Context, { rollouts, backends }: AppDeps): Promise<Response> {
  const key = c.req.header("idempotency-key");
  if (key !== undefined && (key === "" || key.length > KEY_CHARS_MAX)) {
    throw new RequestError("field_invalid", `Idempotency-Key has ${key.length} characters`, [
      { path: "Idempotency-Key", message: `has ${key.length} characters`, accepted: `1 to ${KEY_CHARS_MAX}` },
    ]);
  }
  const { value, bytes } = await readBody(c, SubmitWire);
  const bodyHash = key === undefined ? "" : Bun.SHA256.hash(bytes, "hex");
  const policies = backends.list().filter((backend) => backend.role === "policy");
  const models = new Set(policies.flatMap(({ model }) => (model === null ? [] : [model])));
  const submission = {
    tasks: tasksOf(value),
    n: value.n,
    request: toJobRequest(value, { models: [...models], limits: rollouts.limitDefaults() }),
    idempotency: key === undefined ? null : { key, bodyHash },
  };
  const { groups, repeated } = await rollouts.submit(submission).catch((error: unknown) => {
    throw value.task === undefined ? error : namingTask(error);
  });
  const made = groups.map(({ groupId, taskId, jobIds }) => ({
    group_id: groupId,
    task_id: taskId,
    job_ids: [...jobIds],
  }));
  return c.json({ groups: made } satisfies z.infer<typeof SubmittedWire>, repeated ? 200 : 202);
}

/** The pipeline counts tasks; a body with a single `task` has no such index. */
function namingTask(error: unknown): unknown {
  if (!(error instanceof RequestError)) return error;
  const faults = error.faults.map((fault) => ({ ...fault, path: fault.path.replace(/^tasks\.0\b/, "task") }));
  return new RequestError(error.reason, error.detail, faults, error.members);
}

async function list(c: Context, { store }: AppDeps): Promise<Response> {
  const given = Object.entries(rawQuery(c));
  const labels = given
    .filter(([name]) => name.startsWith(LABEL))
    .map(([name, value]) => [name.slice(LABEL.length), value]);
  const query = parseWith(JobsQuery, Object.fromEntries(given.filter(([name]) => !name.startsWith(LABEL))));
  const limit = query.limit ?? PAGE_ROWS;
  const jobs = await store.jobs({
    limit,
    labels: Object.fromEntries(labels),
    ...(query.state === undefined ? {} : { state: query.state }),
    ...(query.handler === undefined ? {} : { handler: query.handler }),
    ...(query.group_id === undefined ? {} : { groupId: query.group_id }),
    ...(query.stream === undefined ? {} : { stream: query.stream }),
    ...(query.after === undefined ? {} : { after: query.after }),
  });
  const next = jobs.length < Math.min(limit, LIMITS.pageRowsMax) ? null : (jobs.at(-1)?.id ?? null);
  return c.json({ jobs: jobs.map(jobToWire), next } satisfies z.infer<typeof JobsWire>);
}

async function artifact(c: Context, { store }: AppDeps): Promise<Response> {
  const name = c.req.param("name") ?? "";
  const bytes = await store.artifact(idOf(c), name);
  if (bytes !== null) {
    // The file is the agent's: never shown by a browser as a page of this server.
    c.header("Content-Type", "application/octet-stream");
    c.header("Content-Disposition", "attachment");
    return c.body(Uint8Array.from(bytes).buffer);
  }
  if ((await store.job(idOf(c))) === null) throw new RequestError("job_unknown", `there is no job ${idOf(c)}`);
  throw new RequestError("artifact_unknown", `job ${idOf(c)} left no ${JSON.stringify(name)}`);
}

function idOf(c: Context): string {
  return c.req.param("id") ?? "";
}
