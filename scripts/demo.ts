/**
 * `bun run demo [--out DIR] [--keep]`: set-up, a real small model under llama.cpp, a server, and four groups of 8.
 * The last line is the output folder; `demo/summary.json` lies in it. With --keep all goes on until Ctrl-C.
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { cacheDir } from "./setup/cache.ts";
import { startLlamaCpp } from "./setup/llamacpp.ts";
import { setUpOrExit } from "./setup/set-up.ts";

const root = `${import.meta.dir}/..`;
const { values } = parseArgs({
  options: { out: { type: "string", default: "rolloutd-demo" }, keep: { type: "boolean", default: false } },
});
const outDir = resolve(values.out);
const startMs = performance.now();
const ready = await setUpOrExit((line) => console.log(`set-up: ${line}`));

await using model = await startLlamaCpp({ cacheDir: cacheDir(), port: 0, slots: 8, contextTokens: 2_048, threads: 1 });
console.log(`model: SmolLM2-135M-Instruct under llama.cpp at ${model.url}`);
await using server = await startServer(model.url);
console.log(`server: ${server.url}, database in ${server.dataDir}`);

const { ApiClient } = await import("../src/cli/api-client.ts");
const { runDemo } = await import("../src/cli/demo.ts");
const summary = await runDemo(new ApiClient({ url: server.url, token: null }), outDir, { model: null });

console.log(`database: ${server.dataDir}`);
console.log(`all of it took ${((performance.now() - startMs) / 1_000).toFixed(1)} s\n`);
console.log(`The same against your own vLLM:
  npx --yes bun@1.4.4 run rolloutd serve --backend http://127.0.0.1:8000
  npx --yes bun@1.4.4 run rolloutd submit examples/demo-tasks.jsonl --n 8 --watch --out results.jsonl
  npx --yes bun@1.4.4 run rolloutd verify results.jsonl
  curl -s http://127.0.0.1:8006/v1/jobs -H 'content-type: application/json' \\
    -d '{"n": 2, "task": {"id": "hello", "handler": "math", "prompt": "What is 2 + 3?", "answer": "5"}}'
`);
if (values.keep) {
  console.log(`still running: ${server.url} (docs at ${server.url}/docs); Ctrl-C ends it`);
  await new Promise<void>((done) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => done());
  });
}
process.exitCode = summary.failed === 0 && summary.rejected === 0 ? 0 : 1;
console.log(outDir);

interface DemoServer extends AsyncDisposable {
  url: string;
  dataDir: string;
}

/** Starts `rolloutd serve` from source on a free port and waits until it listens. */
async function startServer(backend: string): Promise<DemoServer> {
  const dataDir = `${outDir}/data`;
  const flags = [
    "--port",
    "0",
    "--data",
    dataDir,
    "--backend",
    backend,
    "--model",
    "policy",
    "--tokenizer",
    ready.model.tokenizer,
  ];
  const child = Bun.spawn([process.execPath, `${root}/src/cli.ts`, "serve", ...flags], {
    env: { ...process.env, ROLLOUTD_BWRAP: ready.bwrap },
    stdin: "ignore",
    stdout: "inherit",
    stderr: "pipe",
  });
  const url = await listening(child.stderr);
  return {
    url,
    dataDir,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.exited;
    },
  };
}

/** Reads the server's log until it says where it listens, and goes on draining it. */
async function listening(log: ReadableStream<Uint8Array>): Promise<string> {
  const found = Promise.withResolvers<string>();
  const read = async () => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of log) {
      text = (text + decoder.decode(chunk, { stream: true })).slice(-100_000);
      const url = /"event":"server:listening"[^\n]*"url":"([^"]+)"/.exec(text)?.[1];
      if (url !== undefined) found.resolve(url);
    }
    found.reject(new Error(`the server ended before it listened:\n${text}`));
  };
  void read().catch(found.reject);
  return await found.promise;
}
