/** `bun scripts/model.ts --engine llamacpp --port 8080`: a small real model for development, until Ctrl-C. */
import { parseArgs } from "node:util";
import { cacheDir } from "./setup/cache.ts";
import { DEMO_MODEL, startLlamaCpp } from "./setup/llamacpp.ts";
import { ensureLlamaCpp, ensureModel } from "./setup/model.ts";

const { values } = parseArgs({
  options: {
    engine: { type: "string", default: "llamacpp" },
    port: { type: "string", default: "8080" },
    slots: { type: "string", default: "8" },
    context: { type: "string", default: "2048" },
    threads: { type: "string", default: "1" },
  },
});
if (values.engine !== "llamacpp") {
  console.error(`--engine ${values.engine} is not known; accepted: llamacpp`);
  process.exit(2);
}
const say = (line: string) => console.log(line);
await ensureLlamaCpp(cacheDir(), say);
const files = await ensureModel(cacheDir(), say);
const server = await startLlamaCpp({
  cacheDir: cacheDir(),
  port: Number(values.port),
  slots: Number(values.slots),
  contextTokens: Number(values.context),
  threads: Number(values.threads),
});
say(`${DEMO_MODEL} answers at ${server.url} (pid ${server.pid}); its tokenizer: ${files.tokenizer}`);
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => void server.stop().then(() => process.exit(0)));
