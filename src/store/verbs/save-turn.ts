import { sql } from "drizzle-orm";
import { assert } from "../../errors.ts";
import type { TurnRecord } from "../../trajectory/turn.ts";
import { addEvent } from "../add-event.ts";
import type { VerbContext } from "../context.ts";
import { turnData } from "../event-data.ts";
import { currentRow } from "../job-rows.ts";
import { once } from "../once.ts";
import { turns } from "../tables.ts";
import { toTurnRow } from "../turn-rows.ts";

interface Input {
  jobId: string;
  attemptId: string;
  record: TurnRecord;
}

/** Keeps one model call as it came. */
export function saveTurn(context: VerbContext, { jobId, attemptId, record }: Input): void {
  const row = currentRow(context, jobId, attemptId);
  assert(row.state === "running", `job ${jobId} is ${row.state}: only RUN has turns`);
  insertTurn(context.db).run({ ...toTurnRow(attemptId, record) });
  addEvent(context, "turn", jobId, turnData(jobId, record));
}

const insertTurn = once((db) =>
  db
    .insert(turns)
    .values({
      attemptId: sql.placeholder("attemptId"),
      number: sql.placeholder("number"),
      branch: sql.placeholder("branch"),
      parent: sql.placeholder("parent"),
      contextStart: sql.placeholder("contextStart"),
      drift: sql.placeholder("drift"),
      promptTokens: sql.placeholder("promptTokens"),
      sampledTokens: sql.placeholder("sampledTokens"),
      arrays: sql.placeholder("arrays"),
      versions: sql.placeholder("versions"),
      sampling: sql.placeholder("sampling"),
      finishReason: sql.placeholder("finishReason"),
      stopReason: sql.placeholder("stopReason"),
      promptMessages: sql.placeholder("promptMessages"),
      messageIndex: sql.placeholder("messageIndex"),
      message: sql.placeholder("message"),
      parse: sql.placeholder("parse"),
      backendId: sql.placeholder("backendId"),
      requestId: sql.placeholder("requestId"),
      endpoint: sql.placeholder("endpoint"),
      cachedTokens: sql.placeholder("cachedTokens"),
      queueMs: sql.placeholder("queueMs"),
      firstTokenMs: sql.placeholder("firstTokenMs"),
      generationMs: sql.placeholder("generationMs"),
      hash: sql.placeholder("hash"),
    })
    .prepare(),
);
