import { LIMITS } from "../limits.ts";
import type { CommandResult } from "../sandbox/sandbox.ts";
import type { ToolAnswer } from "./tool.ts";

/** A text of at most about `observationCharsMax` characters: its middle is cut out, and counted where it was. */
export function cutMiddle(text: string, totalBytes = Buffer.byteLength(text)): { text: string; cut: boolean } {
  const max = LIMITS.observationCharsMax;
  if (text.length <= max) return { text, cut: false };
  // A cut may halve a surrogate pair, which no tokenizer takes.
  const head = text.slice(0, Math.ceil(max / 2)).toWellFormed();
  const tail = text.slice(text.length - Math.floor(max / 2)).toWellFormed();
  const left = totalBytes - Buffer.byteLength(head) - Buffer.byteLength(tail);
  return { text: `${head}\n[... ${left} bytes left out ...]\n${tail}`, cut: true };
}

/** What the model is shown of a command: its output, then what the output does not say. */
export function observe(result: CommandResult): ToolAnswer {
  const { text, cut } = cutMiddle(result.output, result.outputBytes);
  const remarks = [
    ...(result.exitCode === null || result.exitCode === 0 ? [] : [`[exit code ${result.exitCode}]`]),
    ...(result.note === null ? [] : [`[${result.note}]`]),
  ];
  const gap = text === "" || text.endsWith("\n") || remarks.length === 0 ? "" : "\n";
  return {
    output: `${text}${gap}${remarks.join("\n")}`,
    exitCode: result.exitCode,
    timedOut: result.timedOut,
    truncated: result.truncated || cut,
  };
}

/** An answer that is only words: of a tool that runs nothing, or to a call that could not be made. */
export function say(output: string): ToolAnswer {
  const { text, cut } = cutMiddle(output);
  return { output: text, exitCode: null, timedOut: false, truncated: cut };
}
