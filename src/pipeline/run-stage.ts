import { runAgent } from "../agent/agent.ts";
import type { AgentEnd } from "../agent/agent-end.ts";
import { REASONS, RolloutError } from "../errors.ts";
import type { Carry } from "../job/job.ts";
import { completeLimits } from "../job/limits.ts";
import { LIMITS } from "../limits.ts";
import type { ModelSession } from "../llm/engine.ts";
import type { RunEnd } from "../store/store.ts";
import { artifactName, carriedPaths } from "../tasks/artifacts.ts";
import { createToolbox, type Toolbox } from "../tools/toolbox.ts";
import { heed } from "./heed.ts";
import type { LiveJob } from "./live-job.ts";
import { activeDeadline } from "./outages.ts";
import { describeRun, RunRecorder } from "./run-record.ts";
import { closeSandbox, endUngraded, finished, type StageParts, stageError, tellHandler } from "./stage-parts.ts";

/**
 * RUN: the agent works until it answers or a bound ends it. Then its processes are killed, what the grader needs is
 * made durable in one transaction with the move to `awaiting_eval`, and the sandbox goes.
 */
export async function runRun(parts: StageParts, live: LiveJob): Promise<void> {
  const { job: claimed, attemptId } = live.claimed;
  const recorder = new RunRecorder(parts, live);
  let session: ModelSession | null = null;
  try {
    const readyMs = parts.clock.nowMs() - live.readyAtMs;
    await parts.store.moveJob({ jobId: claimed.id, attemptId, from: "ready", to: "running", timing: { readyMs } });
    session = await parts.backends.openSession({
      model: claimed.model,
      jobId: claimed.id,
      signal: live.signal,
      takesText: !claimed.tokenExact,
    });
    const toolbox = createToolbox(live.setup.tools);
    recorder.begin(session, toolbox.schemas);
    const end = await work(parts, live, { session, toolbox, recorder });
    await live.sandbox?.killProcesses();
    const carry = await collect(live, end);
    // Cancelled in the moment of its end: the store has then finished the job.
    const job = await parts.store.endRun(describeRun(recorder, end.reason, carry, end.messages));
    if (job !== null) finished(parts, job);
    parts.observer.stageEnded("run", recorder.runMs);
  } catch (thrown) {
    const error = stageError(thrown, live.signal, "handler_error");
    // The processes go first: what a dying agent still does must not outlive the state that says it ended.
    await closeSandbox(parts, live);
    await tellHandler(parts, live, error);
    await endUngraded(parts, live, error, partialRun(recorder, error));
  } finally {
    session?.close();
    await closeSandbox(parts, live);
  }
}

interface RunParts {
  session: ModelSession;
  toolbox: Toolbox;
  recorder: RunRecorder;
}

async function work(parts: StageParts, live: LiveJob, run: RunParts): Promise<AgentEnd> {
  const { limits, sampling, model } = live.claimed.job;
  const late = new RolloutError("run_timeout", `RUN took longer than ${limits.runMs} ms`);
  const timer = activeDeadline(parts, { model, ms: limits.runMs }, live.signal, late);
  const { session, toolbox, recorder } = run;
  const agent = () =>
    runAgent(
      { session, toolbox, sandbox: live.sandbox, journal: recorder },
      {
        messages: live.setup.messages,
        format: live.setup.toolFormat,
        sampling,
        budget: {
          turnsMax: live.setup.toolFormat === "none" ? 1 : limits.turnsMax,
          tokensMax: limits.tokensMax,
        },
        toolMs: limits.toolMs,
        outputChars: completeLimits(limits).outputChars,
      },
      timer.signal,
    );
  try {
    const context = { task: live.task, limits, signal: timer.signal, log: parts.log, sandbox: live.sandbox };
    const run = live.handler.run?.({ ...context, runAgent: agent }) ?? agent();
    return await heed(run, { signal: timer.signal, clock: parts.clock, graceMs: parts.handlerGraceMs });
  } catch (thrown) {
    if (timer.signal.reason !== late) throw thrown;
    return { reason: "run_timeout", answer: null, messages: live.setup.messages };
  } finally {
    await timer.release();
  }
}

/** What crosses to EVAL. A file that is no longer there, is no regular file or is too large is left out. */
async function collect(live: LiveJob, end: AgentEnd): Promise<Carry> {
  const artifacts: { name: string; bytes: Uint8Array }[] = [];
  const { sandbox } = live;
  for (const path of sandbox === null ? [] : carriedPaths(live.handler, live.task)) {
    const bytes = await sandbox?.readFile(path, LIMITS.sandboxFileBytesMax).catch(nullWhenTooLarge);
    if (bytes) artifacts.push({ name: artifactName(path), bytes });
  }
  return { answer: live.handler.carry.answer ? end.answer : null, artifacts };
}

function nullWhenTooLarge(error: unknown): null {
  if (error instanceof RolloutError && error.reason === "sandbox_limit") return null;
  throw error;
}

/** What a cancelled run had sampled, so that its trajectory can be read; null before the first session. */
function partialRun(recorder: RunRecorder, error: RolloutError): RunEnd | null {
  if (!recorder.hasBegun) return null;
  const reason = REASONS[error.reason].status === "cancelled" ? error.reason : "cancelled";
  return describeRun(recorder, reason, { answer: null, artifacts: [] }, recorder.messages);
}
