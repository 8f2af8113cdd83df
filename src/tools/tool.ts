import type { z } from "zod";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { ToolSchema } from "../trajectory/message.ts";

/** What a tool call may touch. `sandbox` is null for tasks that need none; tools that need one are then not offered. */
export interface ToolContext {
  sandbox: Sandbox | null;
  toolMs: number;
  signal: AbortSignal;
}

/** A tool's answer to the model. A wrong call is an answer too: nothing the model writes may throw. */
export interface ToolAnswer {
  output: string;
  exitCode: number | null;
  timedOut: boolean;
  truncated: boolean;
  /** Set by `finish`: the job's answer; the agent ends after this call. */
  final?: string;
}

/** What the model may call: schema for the template, zod for the arguments, and the work. */
export interface Tool {
  readonly name: string;
  readonly schema: ToolSchema;
  readonly needsSandbox: boolean;
  readonly arguments: z.ZodType;
  /** `parsed` passed `arguments`. Throws RolloutError only (sandbox_lost, sandbox_limit) or on abort. */
  call(parsed: unknown, context: ToolContext): Promise<ToolAnswer>;
}
