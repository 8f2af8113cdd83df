import type { FinishReason, VersionSpan } from "../../trajectory/turn.ts";
import type { Completion } from "../engine.ts";

/** Servers that were never told a version of their weights call it this. */
const UNNAMED_VERSION = "default";

/** What a streamed turn has brought so far. */
export interface StreamedTurn {
  ids: number[];
  logprobs: number[];
  finish: string | null;
  stopReason: number | string | null;
  versions: readonly VersionSpan[];
  cachedTokens: number | null;
  firstTokenMs: number | null;
}

export function newStreamedTurn(): StreamedTurn {
  return {
    ids: [],
    logprobs: [],
    finish: null,
    stopReason: null,
    versions: [],
    cachedTokens: null,
    firstTokenMs: null,
  };
}

/** The turn as the port has it; a log-prob that the server could not write as a number is NaN in it. */
export function completionOf(turn: StreamedTurn, told: { endpoint: string; generationMs: number }): Completion {
  return {
    ids: Int32Array.from(turn.ids),
    logprobs: Float32Array.from(turn.logprobs),
    finishReason: finishReason(turn.finish),
    stopReason: turn.stopReason,
    versions: turn.versions,
    cachedTokens: turn.cachedTokens,
    firstTokenMs: turn.firstTokenMs,
    ...told,
  };
}

/** A stream that ends without a reason was cut: older servers skip the last chunk of an aborted request. */
function finishReason(finish: string | null): FinishReason {
  return finish === "stop" || finish === "length" ? finish : "abort";
}

/**
 * Spans by a server's own names. Weights that it was never told a name of are those the turn was sent for; when it has
 * no other name the spans say nothing and there are none.
 */
export function namedSpans(spans: readonly VersionSpan[], sentFor: string): VersionSpan[] {
  if (spans.every(({ version }) => version === UNNAMED_VERSION)) return [];
  return spans.map(({ version, start, end }) => ({
    version: version === UNNAMED_VERSION ? sentFor : version,
    start,
    end,
  }));
}
