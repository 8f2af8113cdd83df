import { deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { sandboxLimitsOf } from "../job/limits.ts";
import { parseNetworkRule } from "../network-rule.ts";
import { toSandboxFile } from "../tasks/artifacts.ts";
import { heed } from "./heed.ts";
import type { LiveJob } from "./live-job.ts";
import { closeSandbox, endUngraded, type StageParts, stageError, tellHandler } from "./stage-parts.ts";

/** INIT: makes the sandbox and the task ready. Resolves true when the job is `ready`; its sandbox is then the live job's. */
export async function runInit(parts: StageParts, live: LiveJob): Promise<boolean> {
  const { job, attemptId } = live.claimed;
  const startMs = parts.clock.nowMs();
  const late = new RolloutError("init_timeout", `INIT took longer than ${job.limits.initMs} ms`);
  const timer = deadline(parts.clock, job.limits.initMs, live.signal, late);
  try {
    await prepare(parts, live, timer.signal);
    timer.signal.throwIfAborted();
    live.readyAtMs = parts.clock.nowMs();
    const timing = { initMs: live.readyAtMs - startMs };
    await parts.store.moveJob({ jobId: job.id, attemptId, from: "initializing", to: "ready", timing });
    parts.observer.stageEnded("init", timing.initMs);
    return true;
  } catch (thrown) {
    const error = taskFault(stageError(thrown, timer.signal, "handler_error"));
    await closeSandbox(parts, live);
    await tellHandler(parts, live, error);
    await endUngraded(parts, live, error);
    return false;
  } finally {
    await timer.release();
  }
}

/** Before the agent has done anything, only the task can have filled the sandbox. */
function taskFault(error: RolloutError): RolloutError {
  if (error.reason !== "sandbox_limit") return error;
  return new RolloutError("task_invalid", `the task does not fit into its sandbox: ${error.detail}`, { cause: error });
}

async function prepare(parts: StageParts, live: LiveJob, signal: AbortSignal): Promise<void> {
  const { task, handler, setup } = live;
  const { limits } = live.claimed.job;
  if (setup.needsSandbox) {
    const files = task.files.map(toSandboxFile);
    const network = (task.network?.allow ?? []).flatMap((rule) => parseNetworkRule(rule) ?? []);
    const options = { image: task.image, limits: sandboxLimitsOf(limits), files, network };
    live.sandbox = await parts.sandboxes.open(options, signal);
  }
  const { clock, handlerGraceMs: graceMs } = parts;
  const ready = handler.init?.({ task, limits, signal, log: parts.log, sandbox: live.sandbox });
  if (ready !== undefined) await heed(ready, { signal, clock, graceMs });
}
