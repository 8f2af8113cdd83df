/**
 * Reads TOML. Throws an Error that names the line at which the faulty statement starts, which Bun's own does not.
 */
export function parseToml(text: string): unknown {
  try {
    return Bun.TOML.parse(text);
  } catch (cause) {
    const what = (cause instanceof Error ? cause.message : String(cause)).replace(/^TOML Parse error: /, "");
    const line = faultyLine(text);
    throw new Error(line === null ? what : `line ${line}: ${what}`, { cause });
  }
}

/** Nobody writes longer ones by hand, and each line costs a parse of what is before it. */
const LINES_MAX = 2_000;

/** The statement after the longest beginning that is TOML by itself; null when the text is too long to look. */
function faultyLine(text: string): number | null {
  const lines = text.split("\n");
  if (lines.length > LINES_MAX) return null;
  const isToml = (count: number) => {
    try {
      Bun.TOML.parse(lines.slice(0, count).join("\n"));
      return true;
    } catch {
      return false;
    }
  };
  let count = lines.length - 1;
  while (count > 0 && !isToml(count)) count -= 1;
  while (/^\s*(#.*)?$/.test(lines[count] ?? "x")) count += 1;
  return count + 1;
}
