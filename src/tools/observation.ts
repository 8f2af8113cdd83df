import { LIMITS } from "../limits.ts";
import { joinParts, type OutputParts } from "../sandbox/bounded-output.ts";
import type { CommandResult } from "../sandbox/sandbox.ts";
import type { Attachments } from "./attachments.ts";
import { shownText } from "./terminal-text.ts";
import type { ToolAnswer } from "./tool.ts";

/** Escape sequences take up to this many times of what is shown; more of an output is not even looked at. */
const LOOKED_AT_FACTOR = 4;

/** At most about `charsMax` characters of an output: its middle is cut out, and counted. */
export function cutMiddle(parts: OutputParts, charsMax: number = LIMITS.observationCharsMax): OutputParts {
  const { head, tail, leftBytes } = parts;
  if (head.length + tail.length <= charsMax) return parts;
  const end = leftBytes === 0 ? head : tail;
  // A cut may halve a surrogate pair, which no tokenizer takes.
  const first = head.slice(0, Math.ceil(charsMax / 2)).toWellFormed();
  const last = end.slice(Math.max(0, end.length - Math.floor(charsMax / 2))).toWellFormed();
  const all = Buffer.byteLength(head) + Buffer.byteLength(tail) + leftBytes;
  return { head: first, tail: last, leftBytes: all - Buffer.byteLength(first) - Buffer.byteLength(last) };
}

/**
 * What the model is shown of a command: its output as a terminal shows it, then what the output does not say. Where
 * the output is cut, all of it is kept as an attachment; so are figures.
 */
export function observe(
  result: CommandResult,
  attachments: Attachments,
  charsMax: number = LIMITS.observationCharsMax,
): ToolAnswer {
  const looked = cutMiddle(result, charsMax * LOOKED_AT_FACTOR);
  const [head, tail] = [shownText(looked.head), shownText(looked.tail)];
  const shown = cutMiddle({ head: head.text, tail: tail.text, leftBytes: looked.leftBytes }, charsMax);
  const [text, cut] = [joinParts(shown), shown.leftBytes > 0];
  const strange = head.strange + tail.strange;
  const remarks = [
    ...(cut ? [wholeOutput(result, attachments)] : []),
    ...(strange === 0 ? [] : [`${strange} characters are no text and are shown as \ufffd`]),
    ...figures(result, attachments),
    ...exit(result),
    ...(result.note === null ? [] : [result.note]),
  ].map((remark) => `[${remark}]`);
  const gap = text === "" || text.endsWith("\n") || remarks.length === 0 ? "" : "\n";
  return {
    output: `${text}${gap}${remarks.join("\n")}`,
    exitCode: result.exitCode,
    signal: result.signal,
    timedOut: result.timedOut,
    truncated: cut,
    attachments: attachments.kept,
  };
}

/** An answer that is only words: of a tool that runs nothing, or to a call that could not be made. */
export function say(output: string): ToolAnswer {
  const shown = cutMiddle({ head: output, tail: "", leftBytes: 0 });
  const truncated = shown.leftBytes > 0;
  return { output: joinParts(shown), exitCode: null, signal: null, timedOut: false, truncated, attachments: [] };
}

function exit({ exitCode, signal }: CommandResult): string[] {
  if (exitCode === null || exitCode === 0) return [];
  return [signal === null ? `exit code ${exitCode}` : `exit code ${exitCode}, ${signal}`];
}

function wholeOutput({ raw, outputBytes }: CommandResult, attachments: Attachments): string {
  const name = attachments.keepOutput(raw);
  if (name === null) return `the whole output of ${outputBytes} bytes is not kept: this job may keep no more files`;
  const part =
    raw.length < outputBytes ? `the first ${raw.length} of ${outputBytes} bytes` : `all ${outputBytes} bytes`;
  return `${part} are kept outside as ${name}`;
}

function figures({ figures: drawn, figuresLost }: CommandResult, attachments: Attachments): string[] {
  const names = drawn.map((bytes, at) => attachments.keepFigure(at + 1, bytes));
  const kept = names.filter((name) => name !== null);
  const lost = names.length - kept.length + figuresLost;
  return [
    ...kept.map((name) => `figure saved as ${name}`),
    ...(lost === 0 ? [] : [`${lost} figures were not saved: they are too many or too large`]),
  ];
}
