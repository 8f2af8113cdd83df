import type { Clock } from "../../clock.ts";
import type { Renderer } from "../../tokens/renderer.ts";
import { TemplateRenderer } from "../../tokens/template-renderer.ts";
import type { BackendProfile, Completion, CompletionRequest, Engine } from "../engine.ts";
import { invalid } from "../fault.ts";
import { createChatRenderer } from "./chat-renderer.ts";
import { type RecordedTurn, type Recording, readRecording } from "./replay-recording.ts";
import { createScriptedSource } from "./scripted-source.ts";

const ENDPOINT = "replay";

export interface ReplayOptions {
  clock: Clock;
  /** File of native trajectories, one a line. */
  path: string;
  /** How long a turn takes, ms, by how long it took; left out, no time at all. */
  turnMs?: (recordedMs: number, request: CompletionRequest) => number;
}

/**
 * A recorded session, answered turn by turn: a prompt gets the very ids, log-probs and versions that it got then. Of
 * several turns with one prompt each asker gets the next, round and round. A prompt that was never sent is refused.
 */
export function createReplayEngine(options: ReplayOptions): Engine {
  const served = new Map<RecordedTurn, number>();
  let recording: Recording | null = null;
  const load = async () => {
    recording ??= await readRecording(options.path);
    return recording;
  };
  return {
    kind: "replay",
    async probe() {
      recording = null;
      served.clear();
      return profileOf(await load());
    },
    async complete(request, signal) {
      const start = performance.now();
      const found = nextTurn(await load(), served, request.ids);
      const waitMs = options.turnMs?.(found.generationMs, request) ?? 0;
      if (waitMs > 0) await options.clock.sleep(waitMs, signal);
      signal.throwIfAborted();
      return answer(found, request, performance.now() - start);
    },
    healthy: () => Bun.file(options.path).exists(),
    remoteRenderer: async () => rendererOf(await load()),
  };
}

function profileOf(recording: Recording): BackendProfile {
  return {
    kind: "replay",
    version: null,
    model: recording.model,
    // The last turn of the longest session fits exactly; a prompt as long as that is refused as it should be.
    contextTokensMax: recording.contextTokens + 1,
    slots: null,
    kvTokens: null,
    logprobsMode: recording.logprobsMode,
    renderer: "local",
    endpoint: ENDPOINT,
    tokenExact: true,
    tellsVersions: true,
    abort: null,
    weights: null,
    streamInterval: false,
    devMode: null,
    notes: [
      `answers are those of ${recording.trajectories} recorded trajectories with ${recording.turns} turns: only their prompts have one`,
    ],
    weightsIdentity: recording.hash,
  };
}

/** The least served turn of this prompt, the earliest of equals. */
function nextTurn(recording: Recording, served: Map<RecordedTurn, number>, prompt: Int32Array): RecordedTurn {
  const count = (turn: RecordedTurn) => served.get(turn) ?? 0;
  let found: RecordedTurn | null = null;
  for (const turn of recording.turnsOf(prompt)) if (found === null || count(turn) < count(found)) found = turn;
  if (found === null) throw invalid(ENDPOINT, `no recorded turn has this prompt of ${prompt.length} tokens`);
  served.set(found, count(found) + 1);
  return found;
}

/** The turn, cut where the request has a tighter bound or another stop id than the recorded one had. */
function answer(turn: RecordedTurn, request: CompletionRequest, generationMs: number): Completion {
  const stopAt = turn.ids.findIndex((id) => request.stopTokenIds.includes(id));
  const ended = stopAt < 0 ? turn.ids.length : stopAt + 1;
  const length = Math.min(ended, request.sampling.maxTokens);
  const isWhole = length === turn.ids.length;
  return {
    ids: turn.ids.slice(0, length),
    logprobs: turn.logprobs.slice(0, length),
    finishReason: isWhole ? turn.finishReason : length < ended ? "length" : "stop",
    stopReason: isWhole ? turn.stopReason : null,
    versions: turn.versions
      .map((span) => ({ ...span, end: Math.min(span.end, length) }))
      .filter((span) => span.start < span.end),
    cachedTokens: null,
    firstTokenMs: null,
    generationMs,
    endpoint: ENDPOINT,
  };
}

/** Sessions of a script or of text are rendered as they were; others need the tokenizer folder of their model. */
function rendererOf(recording: Recording): Renderer {
  const own = [new TemplateRenderer(createScriptedSource()), createChatRenderer()];
  const found = own.find((renderer) => renderer.tokenizerHash === recording.tokenizerHash);
  if (found === undefined) throw invalid(ENDPOINT, "a recording renders no prompts: name the model's tokenizer folder");
  return found;
}
