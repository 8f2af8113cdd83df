import type { z } from "zod";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { ToolSchema } from "../trajectory/message.ts";
import type { Attachment, Attachments } from "./attachments.ts";

/** What a tool call may touch. `sandbox` is null for tasks that need none; tools that need one are then not offered. */
export interface ToolContext {
  sandbox: Sandbox | null;
  toolMs: number;
  /** Characters of a command's output that the model is shown. */
  outputChars: number;
  attachments: Attachments;
  signal: AbortSignal;
}

/** A tool's answer to the model. A wrong call is an answer too: nothing the model writes may throw. */
export interface ToolAnswer {
  output: string;
  exitCode: number | null;
  /** The signal that ended the command; null when none did. */
  signal: string | null;
  timedOut: boolean;
  truncated: boolean;
  /** Files kept beside it. */
  attachments: readonly Attachment[];
  /** Set by `finish`: the job's answer; the agent ends after this call. */
  final?: string;
}

/** What the model may call: schema for the template, zod for the arguments, and the work. */
export interface Tool {
  /** As a task names it; the model calls it by its schema's name. */
  readonly name: string;
  readonly schema: ToolSchema;
  readonly needsSandbox: boolean;
  readonly arguments: z.ZodType;
  /** `parsed` passed `arguments`. Throws RolloutError only (sandbox_lost, sandbox_limit) or on abort. */
  call(parsed: unknown, context: ToolContext): Promise<ToolAnswer>;
}
