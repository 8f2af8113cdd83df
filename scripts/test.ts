/**
 * `bun run test [PATH...]`: set-up, then all tests (or those of PATH). The last line is `N passed, N failed`, with
 * `, N skipped` where a test was skipped; exit code 0 only when tests ran and none failed.
 */
import { setUpOrExit } from "./setup/set-up.ts";
import { openTestVllm } from "./setup/vllm-for-tests.ts";

const report = (line: string) => console.log(`set-up: ${line}`);
const ready = await setUpOrExit(report);
const vllm = await openTestVllm(process.argv.slice(2), report);
// Bun 1.4.4 does not read a bound on tests from bunfig.toml.
const child = Bun.spawn([process.execPath, "test", "--timeout", "30000", ...process.argv.slice(2)], {
  cwd: `${import.meta.dir}/..`,
  env: { ...process.env, ROLLOUTD_BWRAP: ready.bwrap, ...vllm.env },
  stdin: "ignore",
  stdout: "inherit",
  stderr: "pipe",
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => child.kill(signal));
let tail = "";
const decoder = new TextDecoder();
for await (const chunk of child.stderr) {
  process.stderr.write(chunk);
  tail = (tail + decoder.decode(chunk, { stream: true })).slice(-4_000);
}
const code = await child.exited;
await vllm[Symbol.asyncDispose]();
const count = (word: string) => Number(new RegExp(`^\\s*(\\d+) ${word}$`, "m").exec(tail)?.[1] ?? 0);
const [passed, failed, skipped] = [count("pass"), count("fail"), count("skip")];
if (vllm.missing !== null) console.log(`tests on vLLM were skipped: ${vllm.missing}`);
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exit(code !== 0 || failed > 0 || passed === 0 ? code || 1 : 0);
