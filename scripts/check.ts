/** `bun run check`: what every commit must pass, in a few seconds: format, lint, type-aware lint, types, tidiness. */
import { installPackages } from "./setup/set-up.ts";

const steps: readonly (readonly [string, readonly string[]])[] = [
  ["format and lint", ["biome", "check", "--error-on-warnings", "."]],
  ["type-aware lint", ["oxlint", "--type-aware", "--deny-warnings"]],
  ["types", ["tsc", "-p", "."]],
  ["tidy", [process.execPath, "test", "test/tidy.test.ts"]],
];
const root = `${import.meta.dir}/..`;
const bin = (name: string) => (name.startsWith("/") ? name : `${root}/node_modules/.bin/${name}`);
await installPackages();
const failed: string[] = [];
const runs = steps.map(async ([name, [program = "", ...rest]]) => {
  const startMs = performance.now();
  const child = Bun.spawn([bin(program), ...rest], { cwd: root, stdin: "ignore", stdout: "pipe", stderr: "pipe" });
  const [out, err, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  console.log(`${code === 0 ? "ok    " : "FAILED"} ${name} (${((performance.now() - startMs) / 1000).toFixed(1)} s)`);
  if (code === 0) return;
  failed.push(name);
  console.log(out, err);
});
await Promise.all(runs);
process.exit(failed.length === 0 ? 0 : 1);
