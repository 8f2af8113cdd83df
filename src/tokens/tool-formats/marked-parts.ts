import type { SampledTurn } from "./parse.ts";

/** A piece of a turn and the marker before it; null for what stands before the first. */
export interface MarkedPart {
  marker: string | null;
  text: string;
}

/**
 * A turn cut at its markers. Where the tokenizer has the first of `markers` as a token only tokens count, so that one
 * spelled in ordinary text is text; markers that it lacks are looked for in the text.
 */
export async function splitAtMarkers(turn: SampledTurn, markers: readonly string[]): Promise<MarkedPart[]> {
  const byId = new Map<number, string>();
  for (const marker of markers) {
    const id = turn.renderer.markerId(marker);
    if (id !== null) byId.set(id, marker);
  }
  const [first] = markers;
  if (first === undefined || turn.renderer.markerId(first) === null) return splitText(turn.text, markers);
  const parts: { marker: string | null; ids: number[] }[] = [{ marker: null, ids: [] }];
  for (const id of turn.ids) {
    const marker = byId.get(id);
    if (marker === undefined) parts.at(-1)?.ids.push(id);
    else parts.push({ marker, ids: [] });
  }
  const texts = await Promise.all(
    parts.map(async ({ ids }) => (ids.length === 0 ? "" : turn.renderer.decode(Int32Array.from(ids), false))),
  );
  const spelled = markers.filter((marker) => turn.renderer.markerId(marker) === null);
  return parts.flatMap(({ marker }, index) => {
    const [head, ...rest] = splitText(texts[index] ?? "", spelled);
    return [{ marker, text: head?.text ?? "" }, ...rest];
  });
}

function splitText(text: string, markers: readonly string[]): MarkedPart[] {
  if (markers.length === 0) return [{ marker: null, text }];
  const pattern = new RegExp(`(${markers.map((marker) => RegExp.escape(marker)).join("|")})`);
  const [before = "", ...rest] = text.split(pattern);
  const parts: MarkedPart[] = [{ marker: null, text: before }];
  for (let at = 0; at + 1 < rest.length; at += 2) parts.push({ marker: rest[at] ?? "", text: rest[at + 1] ?? "" });
  return parts;
}

/** The texts of the parts that are no calls, one to a line. */
export function contentOf(parts: readonly MarkedPart[]): string {
  return parts
    .map((part) => part.text.trim())
    .filter((text) => text !== "")
    .join("\n");
}
