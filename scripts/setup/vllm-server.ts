import { join } from "node:path";
import { ensureHfModel, ensureVllm } from "./vllm.ts";

/** The model's name on the server. */
export const VLLM_MODEL = "smollm2-135m-instruct";

/** 28 s on free cores, 62 on shared ones. */
const START_MS_MAX = 300_000;
const OUTPUT_CHARS_MAX = 8_000;

/** A running vLLM. `stop` resolves when its processes are gone; they also go when this process does, however it ends. */
export interface Vllm extends AsyncDisposable {
  url: string;
  pid: number;
  stop(): Promise<void>;
}

export interface VllmOptions {
  cacheDir: string;
  /** 0 takes a free one. */
  port: number;
  /** Served on this Unix socket instead of a port. */
  unix?: string;
  /** Of `vllm serve`, behind those that every start has. */
  extraFlags?: readonly string[];
}

/**
 * Starts vLLM with the small model on one thread and waits until it answers: float32, processed log-probs,
 * development mode, 2,048 tokens of context. What is not in the cache is installed now. Throws with the end of its
 * output when it does not come up, and with the reason where vLLM cannot be had.
 */
export async function startVllm(options: VllmOptions): Promise<Vllm> {
  const ready = await ensureVllm(options.cacheDir, () => {});
  if ("missing" in ready) throw new Error(`there is no vLLM here: ${ready.missing}`);
  const folder = await ensureHfModel(options.cacheDir, ready.python, () => {});
  const script = join(import.meta.dir, "..", "llm", "vllm_server.py");
  const where = options.unix ?? String(options.port);
  const child = Bun.spawn([ready.python, script, folder, VLLM_MODEL, where, ...(options.extraFlags ?? [])], {
    stdin: "pipe",
    stdout: "pipe",
    stderr: "pipe",
  });
  const output = collect(child);
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
    // The engine's processes hold the same pipes: at their end they are gone, and with them gigabytes.
    await output.ended;
  };
  const late = AbortSignal.timeout(START_MS_MAX);
  try {
    const url = await Promise.race([output.address, rejectedBy(late)]);
    await waitForHealth(url, child, late);
    return { url, pid: child.pid, stop, [Symbol.asyncDispose]: stop };
  } catch (cause) {
    await stop();
    throw new Error(`vLLM did not start: ${String(cause)}\n${output.tail()}`, { cause });
  }
}

type Child = Bun.Subprocess<"pipe", "pipe", "pipe">;

interface Output {
  /** Where it listens; rejects when it ends before. */
  address: Promise<string>;
  /** Resolves when no process holds the output any more. */
  ended: Promise<void>;
  tail(): string;
}

/** Reads both outputs to their end, or a full pipe would stop the server. They are kept apart: their pieces mix. */
function collect(child: Child): Output {
  const address = Promise.withResolvers<string>();
  const said = { stdout: "", stderr: "" };
  const read = async (from: "stdout" | "stderr") => {
    const decoder = new TextDecoder();
    for await (const chunk of child[from]) {
      const text = said[from] + decoder.decode(chunk, { stream: true });
      const found = /^listening (\S+)$/m.exec(text)?.[1];
      if (found !== undefined) address.resolve(found);
      said[from] = text.slice(-OUTPUT_CHARS_MAX);
    }
  };
  const finish = () => address.reject(new Error("it ended"));
  const ended = Promise.all([read("stdout"), read("stderr")]).then(finish, finish);
  // Whoever waits for the address sees the rejection; after that nobody does.
  address.promise.catch(() => {});
  return { address: address.promise, ended, tail: () => `${said.stdout}\n${said.stderr}` };
}

async function waitForHealth(url: string, child: Child, late: AbortSignal): Promise<void> {
  const unix = url.startsWith("unix:") ? { unix: url.slice("unix:".length) } : {};
  const base = url.startsWith("unix:") ? "http://localhost" : url;
  while (child.exitCode === null && child.signalCode === null) {
    late.throwIfAborted();
    const answer = await fetch(`${base}/health`, { ...unix, signal: late }).catch(() => null);
    if (answer?.ok) return;
    await Bun.sleep(100);
  }
  throw new Error("it ended");
}

function rejectedBy(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(new Error(`it did not listen within ${START_MS_MAX} ms`)), {
      once: true,
    });
  });
}
