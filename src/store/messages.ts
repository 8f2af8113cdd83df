/** What passes between the client and the Worker. Errors do not survive structured cloning, so they are spelled out. */
import { type InputFault, type Reason, RequestError, type RequestReason, RolloutError } from "../errors.ts";
import type { Commit } from "./store.ts";
import type { VerbInput, VerbName } from "./verbs.ts";

export type Call = {
  [Name in VerbName]: { kind: "call"; id: number; verb: Name; input: VerbInput<Name>; nowMs: number };
}[VerbName];

export type ToWorker = { kind: "open"; file: string } | Call | { kind: "close" };

export type Answer = { id: number; value: unknown } | { id: number; error: SentError };

export type FromWorker =
  | { kind: "opened" }
  | { kind: "failed"; error: SentError }
  /** `commit`: what the transaction added; null when no event and no result. */
  | { kind: "answers"; answers: readonly Answer[]; commit: Commit | null }
  | { kind: "closed" };

export type SentError =
  | { kind: "rollout"; reason: Reason; detail: string }
  | {
      kind: "request";
      reason: RequestReason;
      detail: string;
      faults: readonly InputFault[];
      members: Readonly<Record<string, unknown>>;
    }
  | { kind: "bug"; message: string; stack: string };

/** Spells an error out. What SQLite says is `store_failed`; an assertion stays what it is, a bug. */
export function sendError(error: unknown): SentError {
  if (error instanceof RolloutError) return { kind: "rollout", reason: error.reason, detail: error.detail };
  if (error instanceof RequestError) {
    return {
      kind: "request",
      reason: error.reason,
      detail: error.detail,
      faults: error.faults,
      members: error.members,
    };
  }
  if (error instanceof Error && "code" in error && String(error.code).startsWith("SQLITE_")) {
    return { kind: "rollout", reason: "store_failed", detail: `${String(error.code)}: ${error.message}` };
  }
  const known = error instanceof Error ? error : new Error(String(error));
  return { kind: "bug", message: known.message, stack: known.stack ?? "" };
}

/** The error that was sent, of its own class again. */
export function receiveError(sent: SentError): Error {
  if (sent.kind === "rollout") return new RolloutError(sent.reason, sent.detail);
  if (sent.kind === "request") return new RequestError(sent.reason, sent.detail, sent.faults, sent.members);
  const error = new Error(sent.message);
  error.stack = sent.stack;
  return error;
}
