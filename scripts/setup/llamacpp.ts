import { join } from "node:path";
import { cacheDir } from "./cache.ts";
import { ensureLlamaCpp, ensureModel } from "./model.ts";

/** The model's name on the server. */
export const DEMO_MODEL = "smollm2-135m-instruct";

/** A cold start takes 1 s; a machine under load has needed 20. */
const START_MS_MAX = 60_000;
const OUTPUT_CHARS_MAX = 4_000;

/** A running server. `stop` resolves when it is gone; it also ends when this process does, however that happens. */
export interface LlamaCpp extends AsyncDisposable {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

export interface LlamaCppOptions {
  cacheDir: string;
  /** 0 takes a free one. */
  port: number;
  /** Requests it works on at once, and the context of each in tokens. */
  slots: number;
  contextTokens: number;
  /** One per free core: threads that share a core spin and make it five times slower. */
  threads: number;
}

/**
 * Starts llama.cpp's server with the model of `ensureModel` and waits until it answers. The server and the model must
 * be in the cache already or are fetched now. Throws with the end of its output when it does not come up.
 */
export async function startLlamaCpp(options: LlamaCppOptions): Promise<LlamaCpp> {
  const { python } = await ensureLlamaCpp(options.cacheDir, () => {});
  const { gguf } = await ensureModel(options.cacheDir, () => {});
  const numbers = [options.port, options.slots, options.contextTokens, options.threads].map(String);
  const script = join(import.meta.dir, "..", "llm", "llamacpp_server.py");
  const child = Bun.spawn([python, script, gguf, DEMO_MODEL, ...numbers], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  const said = { stdout: "", stderr: "" };
  const url = Promise.withResolvers<string>();
  // Its output is read to the end, or a full pipe would stop the server. The two are kept apart: their pieces mix.
  const read = async (from: "stdout" | "stderr") => {
    const decoder = new TextDecoder();
    for await (const chunk of child[from]) {
      said[from] = (said[from] + decoder.decode(chunk, { stream: true })).slice(-OUTPUT_CHARS_MAX);
      const found = /^listening (http:\/\/\S+)$/m.exec(said.stdout)?.[1];
      if (found !== undefined) url.resolve(found);
    }
  };
  const ended = () => url.reject(new Error("it ended"));
  void Promise.all([read("stdout"), read("stderr")]).then(ended, ended);
  const timer = setTimeout(() => url.reject(new Error(`it did not answer within ${START_MS_MAX} ms`)), START_MS_MAX);
  try {
    const address = await url.promise;
    await waitForHealth(address);
    return { url: address, pid: child.pid, stop, [Symbol.asyncDispose]: stop };
  } catch (cause) {
    await stop();
    throw new Error(`llama.cpp did not start: ${String(cause)}\n${said.stderr}`, { cause });
  } finally {
    clearTimeout(timer);
  }
}

async function waitForHealth(url: string): Promise<void> {
  const until = performance.now() + START_MS_MAX;
  while (performance.now() < until) {
    const answer = await fetch(`${url}/health`).catch(() => null);
    if (answer?.ok) return;
    await Bun.sleep(50);
  }
  throw new Error(`${url}/health is not ready`);
}

/** `startLlamaCpp` with what tests and the demo share: 8 slots of 2,048 tokens on one thread. */
export function startDemoModel(port: number): Promise<LlamaCpp> {
  return startLlamaCpp({ cacheDir: cacheDir(), port, slots: 8, contextTokens: 2_048, threads: 1 });
}
