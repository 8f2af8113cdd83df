/** What the edit tool does to a text: pure functions over lines and strings. */

/** A changed text and the line where the change begins (from 1), or what is wrong with the request. */
export type EditResult = { text: string; line: number } | { problem: string };

const NEAR_LINES_MAX = 5;
const NEAR_CHARS_MAX = 120;
const OCCURRENCES_NAMED_MAX = 10;
/** More are not counted: a long text that overlaps itself would take minutes. */
const OCCURRENCES_MAX = 1_000;
/** Share of its words that a line has in common with the wanted one to be shown as near. */
const ALIKE_MIN = 0.5;
/** Lines that are compared word by word; it takes about 1 ms for 1,000. */
const ALIKE_LINES_MAX = 20_000;
const LINE_CHARS_MAX = 1_000;
const SNIPPET_LINES = 3;

/** Replaces `oldText` where it stands exactly once. Otherwise says where it stands, or what looks like it. */
export function replaceOnce(text: string, oldText: string, newText: string): EditResult {
  if (oldText === "") return { problem: "old_str is empty: give the text to replace, or use insert" };
  if (oldText === newText) return { problem: "old_str and new_str are equal: nothing would change" };
  const places = occurrences(text, oldText);
  const [place] = places;
  if (place === undefined) return { problem: `old_str does not occur in the file. ${nearLines(text, oldText)}` };
  if (places.length > 1) {
    const lines = places.slice(0, OCCURRENCES_NAMED_MAX).map((at) => lineOf(text, at));
    const times = places.length < OCCURRENCES_MAX ? `${places.length}` : `${OCCURRENCES_MAX} or more`;
    return {
      problem: `old_str occurs ${times} times, at lines ${lines.join(", ")}: add lines around it until it is unique`,
    };
  }
  return { text: text.slice(0, place) + newText + text.slice(place + oldText.length), line: lineOf(text, place) };
}

/** Inserts whole lines after line `after`; 0 puts them first. */
export function insertAfter(text: string, after: number, inserted: string): EditResult {
  const lines = linesOf(text);
  if (after > lines.length) {
    return { problem: `insert_line is ${after}, but the file has ${lines.length} lines: use 0 to ${lines.length}` };
  }
  const added = linesOf(inserted);
  const all = [...lines.slice(0, after), ...added, ...lines.slice(after)];
  const endsOpen = text !== "" && !text.endsWith("\n");
  return { text: all.join("\n") + (endsOpen ? "" : "\n"), line: after + 1 };
}

/** Lines `from` to `to` (from 1, both included) with their numbers. */
export function numbered(text: string, from: number, to: number): string {
  const lines = linesOf(text).slice(from - 1, to);
  return lines.map((line, i) => `${String(from + i).padStart(6)}\t${line}`).join("\n");
}

/** The surroundings of a change that begins at `line` and put in `changedLines` lines. */
export function snippet(text: string, line: number, changedLines: number): string {
  return numbered(text, Math.max(1, line - SNIPPET_LINES), line + changedLines - 1 + SNIPPET_LINES);
}

/** How the lines of a text end: all with CRLF, some of them, or none. */
export function lineEndsOf(text: string): "crlf" | "mixed" | "lf" {
  const crlf = text.split("\r\n").length - 1;
  if (crlf === 0) return "lf";
  return crlf === text.split("\n").length - 1 ? "crlf" : "mixed";
}

/** The lines of a text; a newline at the end begins no further line. */
export function linesOf(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

function occurrences(text: string, part: string): number[] {
  const found: number[] = [];
  // Those that overlap count too: of `aa` in `aaa` either could be meant.
  for (let at = text.indexOf(part); at >= 0 && found.length < OCCURRENCES_MAX; at = text.indexOf(part, at + 1)) {
    found.push(at);
  }
  return found;
}

function lineOf(text: string, at: number): number {
  let line = 1;
  for (let i = text.indexOf("\n"); i >= 0 && i < at; i = text.indexOf("\n", i + 1)) line += 1;
  return line;
}

/** Lines that equal a line of `wanted` but for spaces: most misses are wrong indentation. Else those that have most words of it. */
function nearLines(text: string, wanted: string): string {
  const bare = (line: string) => line.replace(/\s+/g, "");
  const looked = new Set(
    linesOf(wanted)
      .map(bare)
      .filter((line) => line !== ""),
  );
  const lines = linesOf(text);
  const same = lines.flatMap((line, i) => (looked.has(bare(line)) ? [`${i + 1}: ${line}`] : []));
  const near = same.length > 0 ? same : alikeLines(lines, wanted);
  if (near.length === 0) return "No line of it is in the file; view the file first.";
  const shown = near.slice(0, NEAR_LINES_MAX).map((line) => line.slice(0, NEAR_CHARS_MAX));
  return `These lines come near, so compare spaces and the lines around:\n${shown.join("\n")}`;
}

/** Lines with half of the words of the first line of `wanted`, or more, the most alike first. */
function alikeLines(lines: readonly string[], wanted: string): string[] {
  const wordsOf = (line: string) => new Set(line.slice(0, LINE_CHARS_MAX).match(/\w+/g));
  const words = linesOf(wanted)
    .map(wordsOf)
    .find((each) => each.size > 0);
  if (words === undefined || lines.length > ALIKE_LINES_MAX) return [];
  const scored = lines.flatMap((line, i) => {
    const own = wordsOf(line);
    const alike = words.intersection(own).size / Math.max(words.size, own.size);
    return alike >= ALIKE_MIN ? [{ alike, shown: `${i + 1}: ${line}` }] : [];
  });
  return scored.sort((a, b) => b.alike - a.alike).map(({ shown }) => shown);
}
