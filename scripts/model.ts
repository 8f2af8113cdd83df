/** `bun run model --engine vllm|llamacpp --port 8080`: a small real model for development, until Ctrl-C. */
import { parseArgs } from "node:util";
import { cacheDir } from "./setup/cache.ts";
import { exitWithMessage } from "./setup/command.ts";
import { DEMO_MODEL, startLlamaCpp } from "./setup/llamacpp.ts";
import { ensureLlamaCpp, ensureModel } from "./setup/model.ts";
import { ensureHfModel, ensureVllm } from "./setup/vllm.ts";
import { startVllm, VLLM_MODEL } from "./setup/vllm-server.ts";

const { values } = parseArgs({
  options: {
    engine: { type: "string", default: "llamacpp" },
    port: { type: "string", default: "8080" },
    /** Of llama.cpp; vLLM has one thread and what its own flags say. */
    slots: { type: "string", default: "8" },
    context: { type: "string", default: "2048" },
    threads: { type: "string", default: "1" },
  },
});
const say = (line: string) => console.log(line);
const engines: Readonly<Record<string, () => Promise<Running>>> = { llamacpp: openLlamaCpp, vllm: openVllm };
const open = engines[values.engine];
if (open === undefined) {
  console.error(`--engine ${values.engine} is not known; accepted: ${Object.keys(engines).join(", ")}`);
  process.exit(2);
}
const server = await open().catch(exitWithMessage);
say(`${server.model} answers at ${server.url} (pid ${server.pid}); its tokenizer: ${server.tokenizer}`);
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => void server.stop().then(() => process.exit(0)));

interface Running {
  model: string;
  tokenizer: string;
  url: string;
  pid: number;
  stop(): Promise<void>;
}

async function openLlamaCpp(): Promise<Running> {
  await ensureLlamaCpp(cacheDir(), say);
  const { tokenizer } = await ensureModel(cacheDir(), say);
  const [port, slots, contextTokens, threads] = [values.port, values.slots, values.context, values.threads].map(Number);
  const options = { port: port ?? 0, slots: slots ?? 1, contextTokens: contextTokens ?? 2_048, threads: threads ?? 1 };
  return { model: DEMO_MODEL, tokenizer, ...(await startLlamaCpp({ cacheDir: cacheDir(), ...options })) };
}

async function openVllm(): Promise<Running> {
  const ready = await ensureVllm(cacheDir(), say);
  if ("missing" in ready) {
    console.error(`there is no vLLM here: ${ready.missing}`);
    process.exit(1);
  }
  const tokenizer = await ensureHfModel(cacheDir(), ready.python, say);
  return { model: VLLM_MODEL, tokenizer, ...(await startVllm({ cacheDir: cacheDir(), port: Number(values.port) })) };
}
