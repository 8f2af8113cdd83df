/** What may happen to the durable state: the names that cross to the Worker, and the verb behind each. */
import { loadJob } from "./job-rows.ts";
import { deleteBackend, listBackends, putBackend } from "./verbs/backends.ts";
import { claimAwaitingEval } from "./verbs/claim-awaiting-eval.ts";
import { claimQueued } from "./verbs/claim-queued.ts";
import { deleteConsumer, listConsumers, putConsumer } from "./verbs/consumers.ts";
import { countJobs } from "./verbs/count-jobs.ts";
import { endCancelled } from "./verbs/end-cancelled.ts";
import { endEval } from "./verbs/end-eval.ts";
import { endRun } from "./verbs/end-run.ts";
import { failAttempt } from "./verbs/fail-attempt.ts";
import { failEval } from "./verbs/fail-eval.ts";
import { listJobs } from "./verbs/list-jobs.ts";
import { moveJob } from "./verbs/move-job.ts";
import { readArtifact } from "./verbs/read-artifact.ts";
import { lastEvent, readEvents } from "./verbs/read-events.ts";
import { readGroup } from "./verbs/read-group.ts";
import { expireResults, readResults } from "./verbs/read-results.ts";
import { readTrajectory } from "./verbs/read-trajectory.ts";
import { recover } from "./verbs/recover.ts";
import { requestCancel } from "./verbs/request-cancel.ts";
import { saveToolResults } from "./verbs/save-tool-results.ts";
import { saveTurn } from "./verbs/save-turn.ts";
import { submit } from "./verbs/submit.ts";

export const VERBS = {
  submit,
  claimQueued,
  claimAwaitingEval,
  moveJob,
  saveTurn,
  saveToolResults,
  endRun,
  endEval,
  failAttempt,
  failEval,
  requestCancel,
  endCancelled,
  recover,
  loadJob,
  listJobs,
  readGroup,
  readTrajectory,
  readArtifact,
  countJobs,
  readResults,
  expireResults,
  putConsumer,
  listConsumers,
  deleteConsumer,
  readEvents,
  lastEvent,
  putBackend,
  listBackends,
  deleteBackend,
} as const;

export type VerbName = keyof typeof VERBS;
/** What a verb takes after its context; null for those that take nothing. */
export type VerbInput<Name extends VerbName> =
  Parameters<(typeof VERBS)[Name]> extends [unknown, infer Input] ? Input : null;
export type VerbOutput<Name extends VerbName> = ReturnType<(typeof VERBS)[Name]>;
