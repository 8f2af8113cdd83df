import type { Renderer } from "../tokens/renderer.ts";

/** Does `use` with a renderer that answers; another backend's when the first one's server is gone. */
export type WithRenderer = <T>(use: (renderer: Renderer) => Promise<T>, signal: AbortSignal) => Promise<T>;

/**
 * A renderer that outlives the backend it came from: a local one as it is; of a remote one the facts are kept and the
 * work goes where `attempt` finds a server.
 */
export function createSessionRenderer(first: Renderer, attempt: WithRenderer): Renderer {
  if (first.kind === "local") return first;
  // Each request of a remote rendering has its own bound, so no signal is needed.
  const never = new AbortController().signal;
  return {
    kind: first.kind,
    tokenizerHash: first.tokenizerHash,
    templateHash: first.templateHash,
    endIds: first.endIds,
    renderPrompt: (messages, tools) => attempt((renderer) => renderer.renderPrompt(messages, tools), never),
    renderDelta: (added, tools, ended) => attempt((renderer) => renderer.renderDelta(added, tools, ended), never),
    decode: (ids, keepSpecial) => attempt((renderer) => renderer.decode(ids, keepSpecial), never),
    markerId: (marker) => first.markerId(marker),
  };
}
