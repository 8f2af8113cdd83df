import { cacheDir } from "../../scripts/setup/cache.ts";
import { type LlamaCpp, startLlamaCpp } from "../../scripts/setup/llamacpp.ts";
import { ensureModel, type ModelFiles } from "../../scripts/setup/model.ts";

/** The real small model behind llama.cpp, for tests that need one: 4 slots of 2,048 tokens on one thread. */
export interface RealModel extends AsyncDisposable {
  server: LlamaCpp;
  files: ModelFiles;
}

/** Starts the server, having fetched what is missing; takes about 1 s. */
export async function startRealModel(): Promise<RealModel> {
  const files = await ensureModel(cacheDir(), () => {});
  const server = await startLlamaCpp({ cacheDir: cacheDir(), port: 0, slots: 4, contextTokens: 2_048, threads: 1 });
  return { server, files, [Symbol.asyncDispose]: () => server.stop() };
}
