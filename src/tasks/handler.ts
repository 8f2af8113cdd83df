import type { AgentEnd } from "../agent/agent-end.ts";
import type { Carry, Verdict } from "../job/job.ts";
import type { JobLimits } from "../job/limits.ts";
import type { Task, ToolFormat } from "../job/task.ts";
import type { Log } from "../log.ts";
import type { Sandbox, SandboxHost } from "../sandbox/sandbox.ts";
import type { Message } from "../trajectory/message.ts";

export interface StageContext {
  task: Task;
  limits: JobLimits;
  /** Aborts at the stage's deadline or when the job is cancelled; work must end soon after. */
  signal: AbortSignal;
  log: Log;
}

export interface InitContext extends StageContext {
  /** Null when the handler said it needs none. */
  sandbox: Sandbox | null;
}

export interface RunContext extends StageContext {
  sandbox: Sandbox | null;
  /** The agent loop with the task's messages, tools and format; a handler may call it or do without it. */
  runAgent(): Promise<AgentEnd>;
}

export interface EvalContext extends StageContext {
  carry: Carry;
  /** Opens fresh sandboxes; what it opened is closed when EVAL ends. */
  sandboxes: Pick<SandboxHost, "open" | "start">;
}

/** How the agent of one task is set up. */
export interface AgentSetup {
  messages: readonly Message[];
  tools: readonly string[];
  /** `auto` is found from the model's chat template when RUN begins. */
  toolFormat: ToolFormat;
  needsSandbox: boolean;
}

/**
 * A kind of task (ProRL's AgentHandler). Stages throw RolloutError; anything else is `handler_error` with its stack.
 * A handler keeps no state between jobs.
 */
export interface Handler {
  readonly name: string;
  readonly source: string;
  /** Tools the task gets when it names none. */
  readonly tools: readonly string[];
  readonly toolFormat: ToolFormat;
  /** What crosses from RUN to EVAL; `artifacts` are the named files of the sandbox, if they exist. */
  readonly carry: { answer: boolean; artifacts: readonly string[] };
  /** Refuses what this handler cannot grade. Throws RequestError task_invalid with one fault for each field. */
  check(task: Task): void;
  /** System prompt, few-shot messages, tools and format; what the task gives wins over the handler's own. */
  setup(task: Task): AgentSetup;
  init?(context: InitContext): Promise<void>;
  /** The default is `context.runAgent()`. */
  run?(context: RunContext): Promise<AgentEnd>;
  evaluate(context: EvalContext): Promise<Verdict>;
  onInitError?(context: StageContext, error: unknown): Promise<void>;
  onRunError?(context: StageContext, error: unknown): Promise<void>;
  onEvalError?(context: StageContext, error: unknown): Promise<void>;
  /** What a perfect agent would have carried over; null when the row has no reference solution. */
  reference(task: Task): Carry | null;
}
