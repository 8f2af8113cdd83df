/** Waits until `holds`, at most ten seconds. */
export async function until(holds: () => Promise<boolean>): Promise<void> {
  const endMs = performance.now() + 10_000;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error("it never came to that");
    await new Promise((resolve) => setImmediate(resolve));
  }
}
