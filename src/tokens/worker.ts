/** Entry point of the Worker that tokenises and renders: one for the process, so the main thread never blocks on it. */
import { RolloutError } from "../errors.ts";
import { createLocalSource, type LocalSource } from "./local-source.ts";
import { TemplateRenderer } from "./template-renderer.ts";
import { readTokenizerFiles } from "./tokenizer-files.ts";
import type { RendererFacts, RenderReply, RenderRequest, RenderValue } from "./worker-protocol.ts";

declare const self: Worker;

interface Opened {
  source: LocalSource;
  renderer: TemplateRenderer;
}

const opened = new Map<string, Promise<Opened>>();

self.onmessage = async (event: MessageEvent<RenderRequest>) => {
  const { id } = event.data;
  const reply: RenderReply = await answer(event.data).then(
    (value) => ({ id, ok: true, value }),
    (error: unknown) => ({
      id,
      ok: false,
      reason: error instanceof RolloutError ? error.reason : null,
      detail: error instanceof RolloutError ? error.detail : String(error),
    }),
  );
  self.postMessage(reply);
};

async function answer(request: RenderRequest): Promise<RenderValue> {
  const { source, renderer } = await open(request.folder);
  switch (request.call) {
    case "open":
      return facts(source);
    case "prompt":
      return renderer.renderPrompt(request.messages, request.tools);
    case "delta":
      return renderer.renderDelta(request.added, request.tools, request.endedByModel);
    case "encode":
      return Int32Array.from((await source.encode(request.text)).ids);
    case "decode":
      return renderer.decode(request.ids, request.keepSpecial);
  }
}

function open(folder: string): Promise<Opened> {
  const known = opened.get(folder);
  if (known !== undefined) return known;
  const opening = readTokenizerFiles(folder).then((files) => {
    const source = createLocalSource(files);
    return { source, renderer: new TemplateRenderer(source) };
  });
  opened.set(folder, opening);
  // A folder that could not be read may be mended: the next call tries again.
  opening.catch(() => opened.delete(folder));
  return opening;
}

function facts(source: LocalSource): RendererFacts {
  const { tokenizerHash, templateHash, endIds, addedTokens } = source;
  return { tokenizerHash, templateHash, endIds, addedTokens: [...addedTokens] };
}
