import { eq, sql } from "drizzle-orm";
import { assert } from "../../errors.ts";
import type { ToolResult } from "../../trajectory/turn.ts";
import { addEvent } from "../add-event.ts";
import { packJson } from "../codec.ts";
import type { VerbContext } from "../context.ts";
import { toolData } from "../event-data.ts";
import { currentRow } from "../job-rows.ts";
import { once } from "../once.ts";
import { artifacts, turns } from "../tables.ts";

interface Input {
  jobId: string;
  attemptId: string;
  turn: number;
  results: readonly ToolResult[];
  /** What they left beside their answers; each name once in an attempt. */
  files: readonly { name: string; bytes: Uint8Array }[];
}

/** Keeps what the tools answered to one turn's calls and the files they left, with an event for each. */
export function saveToolResults(context: VerbContext, { jobId, attemptId, turn, results, files }: Input): void {
  currentRow(context, jobId, attemptId);
  const { changes } = updateTurn(context.db).run({ attemptId, turn, results: packJson(results) }) as unknown as {
    changes: number;
  };
  assert(changes === 1, `turn ${turn} of attempt ${attemptId} was saved before its tools answered`);
  for (const { name, bytes } of files) {
    const row = { attemptId, name, bytes: bytes.length, content: bytes, fromTool: true };
    context.db.insert(artifacts).values(row).run();
  }
  for (const result of results) addEvent(context, "tool", jobId, toolData(jobId, turn, result));
}

const updateTurn = once((db) =>
  db
    .update(turns)
    .set({ toolResults: sql`${sql.placeholder("results")}` })
    .where(sql`${eq(turns.attemptId, sql.placeholder("attemptId"))} and ${eq(turns.number, sql.placeholder("turn"))}`)
    .prepare(),
);
