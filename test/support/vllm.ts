/**
 * The vLLM that `bun run test` starts once for all tests, or that `ROLLOUTD_TEST_VLLM` names. Where there is none, the
 * tests are skipped and their names say why.
 */
export const vllmUrl = process.env.ROLLOUTD_TEST_VLLM ?? "";

const why = process.env.ROLLOUTD_TEST_VLLM_MISSING ?? "no vLLM is running: start the tests with `bun run test`";

/** For `describe.skipIf`. */
export const hasNoVllm = vllmUrl === "";

/** The name of a group of tests, with the reason where they are skipped. */
export function onVllm(name: string): string {
  return hasNoVllm ? `${name} (skipped: ${why})` : name;
}
