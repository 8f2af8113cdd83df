import { join } from "node:path";
import { cacheDir } from "./cache.ts";
import { ensureHfModel, ensureVllm } from "./vllm.ts";
import { startVllm } from "./vllm-server.ts";

const ROOT = join(import.meta.dir, "../..");
/** Tests that use the shared vLLM import this. */
const MARK = 'support/vllm.ts"';

/** The vLLM that all tests of one run share. */
export interface TestVllm extends AsyncDisposable {
  /** For the tests: `ROLLOUTD_TEST_VLLM`, its url, or `ROLLOUTD_TEST_VLLM_MISSING`, why there is none. */
  env: Readonly<Record<string, string>>;
  /** Why tests are skipped; null when none are for want of vLLM. */
  missing: string | null;
}

/**
 * Installs and starts vLLM for a run of the tests whose paths contain one of `filters` (all when there is none). Where
 * no test needs it, or `ROLLOUTD_TEST_VLLM` names one that runs already, nothing is started. Throws when it can be had
 * but does not start: tests that could run are never skipped.
 */
export async function openTestVllm(filters: readonly string[], report: (line: string) => void): Promise<TestVllm> {
  const nothing = { env: {}, missing: null, [Symbol.asyncDispose]: async () => {} };
  if (process.env.ROLLOUTD_TEST_VLLM || !(await isWanted(filters))) return nothing;
  const ready = await ensureVllm(cacheDir(), report);
  if ("missing" in ready) {
    report(`no vLLM: ${ready.missing}`);
    return { ...nothing, env: { ROLLOUTD_TEST_VLLM_MISSING: ready.missing }, missing: ready.missing };
  }
  await ensureHfModel(cacheDir(), ready.python, report);
  const startMs = performance.now();
  const vllm = await startVllm({ cacheDir: cacheDir(), port: 0 });
  report(`vLLM at ${vllm.url} (${((performance.now() - startMs) / 1000).toFixed(1)} s)`);
  return { ...nothing, env: { ROLLOUTD_TEST_VLLM: vllm.url }, [Symbol.asyncDispose]: () => vllm.stop() };
}

/** A filter that fits no file is another option's value, such as that of `-t`: it speaks of all files. */
async function isWanted(filters: readonly string[]): Promise<boolean> {
  const files = [...new Bun.Glob("test/**/*.test.ts").scanSync(ROOT)];
  const paths = filters.map((filter) => filter.replace(/^\.\//, ""));
  const chosen = files.filter((file) => paths.some((path) => file.includes(path) || path.endsWith(file)));
  const texts = (chosen.length > 0 ? chosen : files).map((file) => Bun.file(join(ROOT, file)).text());
  return (await Promise.all(texts)).some((text) => text.includes(MARK));
}
