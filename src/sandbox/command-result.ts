import { constants } from "node:os";
import { LIMITS } from "../limits.ts";
import { BoundedOutput, joinParts, type OutputParts } from "./bounded-output.ts";
import type { CommandResult } from "./sandbox.ts";

/** A shell counts an end by signal as 128 and its number; the highest signal is 64. */
const SIGNAL_BASE = 128;
const SIGNAL_MAX = 64;

/** How a call ended, before it is a CommandResult. */
export type Outcome = Pick<
  CommandResult,
  "exitCode" | "signal" | "timedOut" | "ladder" | "figures" | "figuresLost" | "note"
>;

/** An end without news but those given. */
export function outcome(given: Partial<Outcome>): Outcome {
  return {
    exitCode: null,
    signal: null,
    timedOut: false,
    ladder: [],
    figures: [],
    figuresLost: 0,
    note: null,
    ...given,
  };
}

/** The end of a call that could not be made. */
export function notRun(why: string): Outcome {
  return outcome({ note: `It was not run: ${why.replace(/\.$/, "")}.` });
}

/** Where one call's output goes; the caller disposes it. */
export function outputSink(): BoundedOutput {
  const half = LIMITS.outputBytesMax / 2;
  return new BoundedOutput({ headBytesMax: half, tailBytesMax: half, spoolBytesMax: LIMITS.outputFileBytesMax });
}

/** What a call gives, from its output and its end; `news` is what happened before it. `clean` takes out what the session itself wrote. */
export function commandResult(
  sink: BoundedOutput,
  end: Outcome,
  call: { news: string | null; startedMs: number; clean: ((output: string) => string) | null },
): CommandResult {
  const { parts, outputBytes, raw } = cleaned(sink, call.clean);
  return {
    ...end,
    ...parts,
    output: joinParts(parts),
    outputBytes,
    truncated: sink.truncated,
    raw,
    note: [call.news, end.note].filter((each) => each !== null).join(" ") || null,
    ms: performance.now() - call.startedMs,
  };
}

function cleaned(sink: BoundedOutput, clean: ((output: string) => string) | null) {
  const [seen, raw] = [sink.parts(), sink.whole()];
  if (clean === null) return { parts: seen, outputBytes: sink.totalBytes, raw };
  const parts = { ...seen, head: clean(seen.head), tail: clean(seen.tail) };
  const removed = bytesOf(seen) - bytesOf(parts);
  const outputBytes = sink.totalBytes - removed;
  if (removed === 0 && !sink.truncated) return { parts, outputBytes, raw };
  // What a session writes is ASCII, so it can be taken out of bytes that are no text.
  return { parts, outputBytes, raw: Buffer.from(clean(Buffer.from(raw).toString("latin1")), "latin1") };
}

function bytesOf({ head, tail }: OutputParts): number {
  return Buffer.byteLength(head) + Buffer.byteLength(tail);
}

/** Null for what is no exit code: the agent can write into the pipes that this comes from. */
export function exitCodeOf(words: readonly string[]): number | null {
  const word = words[0] ?? "";
  return /^\d{1,3}$/.test(word) ? Number(word) : null;
}

/** The signal that a shell's exit code stands for; null when it stands for none. */
export function signalOf(exitCode: number | null): string | null {
  const number = (exitCode ?? 0) - SIGNAL_BASE;
  return number >= 1 && number <= SIGNAL_MAX ? signalName(number) : null;
}

/** `SIGKILL` for 9; `SIG34` for one without a name. */
function signalName(number: number): string {
  return Object.entries(constants.signals).find(([, value]) => value === number)?.[0] ?? `SIG${number}`;
}
