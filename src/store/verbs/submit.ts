import { eq, sql } from "drizzle-orm";
import { RequestError } from "../../errors.ts";
import { newId } from "../../ids.ts";
import { LIMITS } from "../../limits.ts";
import type { VerbContext } from "../context.ts";
import { addToCount } from "../move-state.ts";
import { once } from "../once.ts";
import type { GroupIds, NewGroup } from "../store.ts";
import { groups, jobs, requests } from "../tables.ts";
import { countJobs } from "./count-jobs.ts";

interface Input {
  groups: readonly NewGroup[];
  idempotency: { key: string; bodyHash: string } | null;
}

/** Makes the groups and their queued jobs, in the order given; a known key gives back the ids of the first time. */
export function submit(context: VerbContext, input: Input): { groups: readonly GroupIds[]; repeated: boolean } {
  const known = input.idempotency && findRequest(context, input.idempotency);
  if (known) return { groups: known, repeated: true };
  const jobsNew = input.groups.reduce((sum, group) => sum + group.n, 0);
  refuseWhenFull(context, jobsNew);
  // Sorted, so that ids of one millisecond follow the order of the request and siblings are claimed in theirs.
  const jobIds = Array.from({ length: jobsNew }, () => newId("job", context.nowMs)).sort();
  const groupIds = input.groups.map(() => newId("grp", context.nowMs)).sort();
  const made: GroupIds[] = [];
  for (const [index, group] of input.groups.entries()) {
    const groupId = groupIds[index] ?? "";
    const ids = jobIds.splice(0, group.n);
    insertGroup(context.db).run({ ...groupValues(group), id: groupId, nowMs: context.nowMs });
    for (const [sample, id] of ids.entries()) {
      insertJob(context.db).run({ ...jobValues(group), id, groupId, sample, nowMs: context.nowMs });
    }
    made.push({ groupId, taskId: group.taskId, jobIds: ids });
  }
  addToCount(context, "queued", jobsNew);
  if (input.idempotency) {
    const { key, bodyHash } = input.idempotency;
    context.db.insert(requests).values({ key, bodyHash, groups: made, createdAt: context.nowMs }).run();
  }
  return { groups: made, repeated: false };
}

function findRequest(context: VerbContext, asked: { key: string; bodyHash: string }): readonly GroupIds[] | null {
  const known = context.db.select().from(requests).where(eq(requests.key, asked.key)).get();
  if (!known) return null;
  if (known.bodyHash === asked.bodyHash) return known.groups;
  throw new RequestError("idempotency_conflict", `the key ${JSON.stringify(asked.key)} was used with another body`);
}

function refuseWhenFull(context: VerbContext, jobsNew: number): void {
  const { finished: _, ...unfinished } = countJobs(context);
  const waiting = Object.values(unfinished).reduce((sum, count) => sum + count, 0);
  if (waiting + jobsNew <= LIMITS.unfinishedJobsMax) return;
  throw new RequestError(
    "queue_full",
    `${waiting} jobs are not finished; with ${jobsNew} more there would be over ${LIMITS.unfinishedJobsMax}`,
  );
}

function groupValues(group: NewGroup) {
  return {
    taskId: group.taskId,
    handler: group.handler,
    task: group.taskJson,
    size: group.n,
    stream: group.request.stream,
  };
}

function jobValues(group: NewGroup) {
  return {
    taskId: group.taskId,
    handler: group.handler,
    model: group.request.model,
    tokenExact: group.request.tokenExact,
    stream: group.request.stream,
    priority: group.request.priority,
    labels: group.request.labels,
    sampling: group.request.sampling,
    limits: group.request.limits,
  };
}

const insertGroup = once((db) =>
  db
    .insert(groups)
    .values({
      id: sql.placeholder("id"),
      taskId: sql.placeholder("taskId"),
      handler: sql.placeholder("handler"),
      task: sql.placeholder("task"),
      size: sql.placeholder("size"),
      stream: sql.placeholder("stream"),
      createdAt: sql.placeholder("nowMs"),
    })
    .prepare(),
);

const insertJob = once((db) =>
  db
    .insert(jobs)
    .values({
      id: sql.placeholder("id"),
      groupId: sql.placeholder("groupId"),
      taskId: sql.placeholder("taskId"),
      handler: sql.placeholder("handler"),
      sample: sql.placeholder("sample"),
      model: sql.placeholder("model"),
      tokenExact: sql.placeholder("tokenExact"),
      stream: sql.placeholder("stream"),
      priority: sql.placeholder("priority"),
      labels: sql.placeholder("labels"),
      sampling: sql.placeholder("sampling"),
      limits: sql.placeholder("limits"),
      state: "queued",
      stateSince: sql.placeholder("nowMs"),
      createdAt: sql.placeholder("nowMs"),
    })
    .prepare(),
);
