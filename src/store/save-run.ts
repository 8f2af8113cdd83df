import { eq } from "drizzle-orm";
import type { VerbContext } from "./context.ts";
import type { RunEnd } from "./store.ts";
import { artifacts, attempts, branches, jobs } from "./tables.ts";
import { toBranchRow } from "./turn-rows.ts";

/** Keeps what RUN left: conversation, branches, artifacts, carry, and the outcome as far as it is known. */
export function saveRun(context: VerbContext, run: RunEnd): void {
  const { db } = context;
  db.update(attempts)
    .set({
      messages: run.messages,
      tools: run.tools,
      network: run.network,
      modelInfo: run.model,
      carry: { answer: run.carry.answer },
      backendIds: run.backendIds,
    })
    .where(eq(attempts.id, run.attemptId))
    .run();
  for (const branch of run.branches) db.insert(branches).values(toBranchRow(run.attemptId, branch)).run();
  for (const { name, bytes } of run.carry.artifacts) {
    const row = { bytes: bytes.length, content: bytes, fromTool: false };
    const key = [artifacts.attemptId, artifacts.name];
    const values = { attemptId: run.attemptId, name, ...row };
    // A task may name a file as a tool names its own: the grader's wins.
    db.insert(artifacts).values(values).onConflictDoUpdate({ target: key, set: row }).run();
  }
  db.update(jobs)
    .set({
      endReason: run.outcome.endReason,
      error: run.outcome.error,
      turns: run.outcome.turns,
      promptTokens: run.outcome.promptTokens,
      sampledTokens: run.outcome.sampledTokens,
      policyVersionMin: run.outcome.policyVersionMin,
      policyVersionMax: run.outcome.policyVersionMax,
      ledger: run.outcome.ledger,
    })
    .where(eq(jobs.id, run.jobId))
    .run();
}
