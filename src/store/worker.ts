/**
 * The Worker that owns the one connection. It does one thing at a time: what arrives while a transaction runs is
 * collected and becomes the next one.
 */
import { LIMITS } from "../limits.ts";
import { type OpenDatabase, openDatabase } from "./database.ts";
import { commitTogether, refuseAll } from "./group-commit.ts";
import { type Call, type FromWorker, sendError, type ToWorker } from "./messages.ts";

declare const self: Worker;

let database: OpenDatabase | null = null;
let waiting: Call[] = [];
let scheduled = false;

self.onmessage = ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === "open") open(data.file);
  else if (data.kind === "close") close();
  else enqueue(data);
};

function open(file: string): void {
  try {
    database = openDatabase(file);
    send({ kind: "opened" });
  } catch (error) {
    send({ kind: "failed", error: sendError(error) });
  }
}

function enqueue(call: Call): void {
  waiting.push(call);
  if (scheduled) return;
  scheduled = true;
  setImmediate(flush);
}

function flush(): void {
  const batch = waiting.slice(0, LIMITS.storeBatchMax);
  waiting = waiting.slice(batch.length);
  scheduled = waiting.length > 0;
  if (scheduled) setImmediate(flush);
  if (batch.length === 0) return;
  if (database) send({ kind: "answers", ...commitTogether(database, batch) });
  else send({ kind: "answers", answers: refuseAll(batch), commit: null });
}

/** Commits what was handed over before, then lets the file go. */
function close(): void {
  while (waiting.length > 0) flush();
  database?.[Symbol.dispose]();
  database = null;
  send({ kind: "closed" });
}

function send(message: FromWorker): void {
  self.postMessage(message);
}
