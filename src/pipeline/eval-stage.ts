import { deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { EMPTY_CARRY, type Verdict } from "../job/job.ts";
import type { SandboxHost } from "../sandbox/sandbox.ts";
import { checkVerdict } from "../tasks/verdict.ts";
import { heed } from "./heed.ts";
import type { LiveJob } from "./live-job.ts";
import { endUngraded, finished, type StageParts, stageError, tellHandler } from "./stage-parts.ts";

/** EVAL: grades what RUN carried over, in sandboxes of its own. Its failure is never a reward. */
export async function runEval(parts: StageParts, live: LiveJob): Promise<void> {
  const { job, attemptId } = live.claimed;
  const startMs = parts.clock.nowMs();
  const late = new RolloutError("eval_timeout", `EVAL took longer than ${job.limits.evalMs} ms`);
  const timer = deadline(parts.clock, job.limits.evalMs, live.signal, late);
  try {
    const verdict = await grade(parts, live, timer.signal);
    timer.signal.throwIfAborted();
    const evalMs = parts.clock.nowMs() - startMs;
    finished(parts, await parts.store.endEval({ jobId: job.id, attemptId, verdict, timing: { evalMs } }));
    parts.observer.stageEnded("eval", evalMs);
  } catch (thrown) {
    const error = stageError(thrown, timer.signal, "handler_error");
    await tellHandler(parts, live, error);
    await endUngraded(parts, live, error);
  } finally {
    await timer.release();
  }
}

async function grade(parts: StageParts, live: LiveJob, signal: AbortSignal): Promise<Verdict> {
  const { claimed, task, handler } = live;
  await using opened = new AsyncDisposableStack();
  /** A handler that was left alone may still open some: they are closed at once. */
  const keep = async <Opened extends AsyncDisposable>(opening: Promise<Opened>): Promise<Opened> => {
    const sandbox = await opening;
    if (!opened.disposed) return opened.use(sandbox);
    await sandbox[Symbol.asyncDispose]();
    throw signal.reason;
  };
  const sandboxes: Pick<SandboxHost, "open" | "start"> = {
    open: (options, own) => keep(parts.sandboxes.open(options, own)),
    start: (options, own) => keep(parts.sandboxes.start(options, own)),
  };
  const carry = claimed.carry ?? EMPTY_CARRY;
  const { limits } = claimed.job;
  const grading = handler.evaluate({ task, carry, limits, signal, log: parts.log, sandboxes });
  return checkVerdict(await heed(grading, { signal, clock: parts.clock, graceMs: parts.handlerGraceMs }));
}
