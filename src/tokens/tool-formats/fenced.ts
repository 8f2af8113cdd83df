import type { ParsedTurn, SampledTurn } from "./parse.ts";

/** Languages of a block that is a call, with the tool's one argument. */
const ARGUMENT_OF: Readonly<Record<string, string>> = { bash: "command", python: "code" };

/**
 * One closed block of bash or python is a call of the tool with that name; no such block is an answer. Blocks of
 * other languages are text.
 */
export function parseFenced(turn: SampledTurn, reasoning: string | null): ParsedTurn {
  const content = turn.text.trim();
  const blocks = fencedBlocks(turn.text).filter((block) => block.language in ARGUMENT_OF);
  const [block, ...more] = blocks;
  if (block === undefined) return { kind: "answer", content, reasoning };
  if (more.length > 0) {
    return { kind: "malformed", content, problem: `${blocks.length} code blocks; write exactly one block in a turn` };
  }
  if (!block.closed) {
    return { kind: "malformed", content, problem: "the code block is not closed; end it with a line of ```" };
  }
  const argument = ARGUMENT_OF[block.language] ?? "";
  const call = {
    id: `call_${turn.nextCallNumber}`,
    name: block.language,
    arguments: JSON.stringify({ [argument]: block.code }),
  };
  return { kind: "calls", calls: [call], content, reasoning };
}

/** A fenced block of Markdown. */
export interface FencedBlock {
  language: string;
  code: string;
  closed: boolean;
}

/** All fenced blocks of a text, in order. A fence opens and closes at the start of a line. */
export function fencedBlocks(text: string): FencedBlock[] {
  const blocks: FencedBlock[] = [];
  let open: { language: string; fence: string; lines: string[] } | null = null;
  for (const line of text.split(/\r?\n/)) {
    const fence = /^\s{0,3}(`{3,})\s*([^`]*?)\s*$/.exec(line);
    if (open === null) {
      if (fence !== null) open = { language: (fence[2] ?? "").toLowerCase(), fence: fence[1] ?? "", lines: [] };
    } else if (fence !== null && fence[2] === "" && (fence[1] ?? "").length >= open.fence.length) {
      blocks.push({ language: open.language, code: open.lines.join("\n"), closed: true });
      open = null;
    } else {
      open.lines.push(line);
    }
  }
  if (open !== null) blocks.push({ language: open.language, code: open.lines.join("\n"), closed: false });
  return blocks;
}
