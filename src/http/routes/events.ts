import { type OpenAPIHono, z } from "@hono/zod-openapi";
import type { Context } from "hono";
import { RequestError } from "../../errors.ts";
import { LIMITS } from "../../limits.ts";
import type { StoredEvent } from "../../store/store.ts";
import type { Supervisor } from "../../supervisor.ts";
import { readQuery } from "../body.ts";
import { CommitWait } from "../commit-wait.ts";
import type { AppDeps } from "../deps.ts";
import { mount } from "../mount.ts";
import { EventsQuery } from "../schemas.ts";

const tag = "events";
const PAGE_EVENTS = 500;
const HEARTBEAT_MS = 15_000;

/** Server-sent events of one job and of all. `streams` owns what runs after the answer has begun. */
export function addEventRoutes(app: OpenAPIHono, deps: AppDeps, streams: Supervisor): void {
  const doc = {
    method: "get",
    tag,
    query: EventsQuery,
    answers: { 200: z.string() },
    contentType: "text/event-stream",
  } as const;
  mount(
    app,
    {
      ...doc,
      path: "/v1/jobs/{id}/events",
      summary: "A job's events until it is finished; resumes after Last-Event-ID; 204 when there are no more",
      problems: [404, 429],
    },
    async (c) => {
      const id = c.req.param("id") ?? "";
      const after = placeOf(c, 0);
      const job = await deps.store.job(id);
      if (job === null) throw new RequestError("job_unknown", `there is no job ${id}`);
      if (job.state === "finished" && (await deps.store.events({ jobId: id, after, limit: 1 })).length === 0) {
        // All was told, or is no longer kept. To an EventSource, which comes back when a stream ends, 204 says: stay away.
        return c.body(null, 204);
      }
      return openStream(c, deps, streams, { jobId: id, after });
    },
  );
  mount(
    app,
    {
      ...doc,
      path: "/v1/events",
      summary: "Events of all jobs from now on; resumes after Last-Event-ID",
      problems: [429],
    },
    async (c) => {
      const newest = await deps.store.lastEventSeq();
      return openStream(c, deps, streams, { jobId: null, after: placeOf(c, newest) });
    },
  );
}

interface Place {
  jobId: string | null;
  after: number;
}

/** Where to go on: the header that EventSource sends by itself, else `after`, else `start`. */
function placeOf(c: Context, start: number): number {
  const { after = start } = readQuery(c, EventsQuery);
  const last = c.req.header("last-event-id");
  if (last === undefined || last === "") return after;
  if (/^\d{1,15}$/.test(last)) return Number(last);
  throw new RequestError("field_invalid", `Last-Event-ID ${JSON.stringify(last)} is no whole number`, [
    { path: "Last-Event-ID", message: "is no whole number", accepted: "the id of an event" },
  ]);
}

function openStream(c: Context, deps: AppDeps, streams: Supervisor, place: Place): Response {
  if (streams.size >= LIMITS.eventStreamsMax) {
    throw new RequestError("streams_full", `${streams.size} event streams are open`);
  }
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const gone = new AbortController();
  const signal = AbortSignal.any([c.req.raw.signal, deps.closing, gone.signal]);
  const writer = writable.getWriter();
  streams.own(
    "events",
    tell(writer, deps, place, signal).finally(() => gone.abort()),
  );
  c.header("Content-Type", "text/event-stream");
  c.header("Cache-Control", "no-store");
  c.header("X-Accel-Buffering", "no");
  return c.body(readable);
}

/** Writes until the reader is gone, the server closes, or the job's `finished` event is told. */
async function tell(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  { store, clock }: AppDeps,
  place: Place,
  signal: AbortSignal,
): Promise<void> {
  const encoder = new TextEncoder();
  let after = place.after;
  const { jobId } = place;
  using commits = new CommitWait(store, clock, (commit) => jobId === null || commit.jobIds.has(jobId));
  try {
    // The head of an answer is sent with its first byte, so that a client sees at once that it is connected.
    await writeUnlessGone(writer, encoder.encode(": rolloutd events\n\n"), signal);
    while (!signal.aborted) {
      commits.arm();
      const page = await store.events({ jobId: place.jobId, after, limit: PAGE_EVENTS });
      for (const event of page) await writeUnlessGone(writer, encoder.encode(frame(event)), signal);
      after = page.at(-1)?.seq ?? after;
      if (place.jobId !== null && page.some((event) => event.kind === "finished")) break;
      if (page.length > 0) continue;
      const beforeMs = clock.nowMs();
      await commits.wait(HEARTBEAT_MS, signal);
      if (clock.nowMs() - beforeMs >= HEARTBEAT_MS)
        await writeUnlessGone(writer, encoder.encode(": still here\n\n"), signal);
    }
    await writer.close();
  } catch (error) {
    // A reader that goes away makes writing fail; that is its right and no failure of ours.
    await writer.abort(error).catch(() => {});
    if (!(error instanceof ReaderGone)) throw error;
  }
}

class ReaderGone extends Error {}

/** Waits for the reader as long as it is there; one that neither reads nor closes is let go with the connection. */
async function writeUnlessGone(
  writer: WritableStreamDefaultWriter<Uint8Array>,
  chunk: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  const left = Promise.withResolvers<never>();
  const leave = () => left.reject(new ReaderGone("the reader of an event stream is gone"));
  if (signal.aborted) leave();
  else signal.addEventListener("abort", leave, { once: true });
  try {
    await Promise.race([writer.write(chunk).catch(leave), left.promise]);
    if (signal.aborted) await left.promise;
  } finally {
    signal.removeEventListener("abort", leave);
  }
}

function frame(event: StoredEvent): string {
  return `id: ${event.seq}\nevent: ${event.kind}\ndata: ${JSON.stringify(event.data)}\n\n`;
}
