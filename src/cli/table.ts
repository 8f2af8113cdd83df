/** Rows as aligned columns, the first row as heading; numbers are set to the right. */
export function formatTable(rows: readonly (readonly (string | number)[])[]): string {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [at, cell] of row.entries()) widths[at] = Math.max(widths[at] ?? 0, Bun.stringWidth(String(cell)));
  }
  const pad = (cell: string | number, at: number) => {
    const gap = " ".repeat((widths[at] ?? 0) - Bun.stringWidth(String(cell)));
    return typeof cell === "number" ? `${gap}${cell}` : `${cell}${gap}`;
  };
  return rows.map((row) => row.map(pad).join("  ").trimEnd()).join("\n");
}

/** `0.625`, `1`, `-` for null: at most three decimals, none that say nothing. */
export function formatReward(reward: number | null): string {
  return reward === null ? "-" : String(Number(reward.toFixed(3)));
}

/** `340 ms`, `12.3 s`, `4 min 05 s`. */
export function formatMs(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${String(Math.floor((ms % 60_000) / 1_000)).padStart(2, "0")} s`;
}
