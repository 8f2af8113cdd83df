/** Proportional set size of processes, bytes: pages that several map are divided among them. */
export async function proportionalBytes(pids: readonly number[]): Promise<number> {
  let kilobytes = 0;
  for (const pid of pids) {
    const text = await Bun.file(`/proc/${pid}/smaps_rollup`)
      .text()
      .catch(() => "");
    kilobytes += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0);
  }
  return kilobytes * 1_024;
}
