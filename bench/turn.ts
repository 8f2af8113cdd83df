import { runAgent } from "../src/agent/agent.ts";
import { systemClock } from "../src/clock.ts";
import type { Completion, Engine } from "../src/llm/engine.ts";
import { createScriptedEngine } from "../src/llm/engines/scripted.ts";
import { encodeScripted, SCRIPTED_END_ID } from "../src/llm/engines/scripted-source.ts";
import { createBackends } from "../src/llm/registry.ts";
import { silentLog } from "../src/log.ts";
import { createToolbox } from "../src/tools/toolbox.ts";
import { DEFAULT_SAMPLING } from "../src/trajectory/sampling.ts";
import { aFolder, aStore, bringTo, submitOne } from "../test/support/store.ts";
import { type Measurement, ofTimes } from "./measure.ts";

const JOBS = 20;
const TURNS = 30;
const BACKEND = {
  model: "policy",
  role: "policy",
  kind: "auto",
  apiKey: null,
  weight: 1,
  policyVersion: null,
  tokenizer: null,
} as const;

/**
 * CPU of one agent turn on a 4k context with 64 new and 64 sampled tokens, the engine answering at once: agent, session,
 * rendering with a tokenizer of bytes, and the store's Worker with its fsync.
 */
export async function benchTurn(): Promise<Measurement[]> {
  using folder = aFolder();
  const { store } = await aStore({ file: `${folder.path}/bench.db` });
  const options = {
    clock: systemClock,
    log: silentLog,
    backendWaitMs: 1_000,
    turnMs: 60_000,
    engineFor: () => anInstantEngine(),
  };
  await using backends = await createBackends(options);
  await backends.add({ ...BACKEND, url: "http://scripted" }, { probe: true });
  const signal = new AbortController().signal;
  const toolbox = createToolbox(["think", "finish"]);
  const runJob = async () => {
    await submitOne(store);
    const at = await bringTo(store, "running");
    const session = await backends.openSession({ model: "policy", jobId: at.jobId, signal });
    const journal = {
      saveTurn: (record: Parameters<typeof store.saveTurn>[0]["record"]) => store.saveTurn({ ...at, record }),
      saveToolResults: (
        turn: number,
        results: Parameters<typeof store.saveToolResults>[0]["results"],
        files: Parameters<typeof store.saveToolResults>[0]["files"],
      ) => store.saveToolResults({ ...at, turn, results, files }),
    };
    const budget = { turnsMax: TURNS, tokensMax: 1_000_000 };
    const task = {
      messages: [{ role: "user", content: "x".repeat(4_000) }],
      format: "hermes",
      sampling: DEFAULT_SAMPLING,
      budget,
      toolMs: 1_000,
      outputChars: 16_384,
    } as const;
    await runAgent({ session, toolbox, sandbox: null, journal }, task, signal);
    session.close();
  };
  await runJob();
  const before = process.cpuUsage();
  for (let job = 0; job < JOBS; job += 1) await runJob();
  const { user, system } = process.cpuUsage(before);
  await store[Symbol.asyncDispose]();
  const perTurnMs = (user + system) / 1_000 / (JOBS * TURNS);
  return [
    ofTimes(
      "one agent turn, 4k context: CPU with store Worker and byte tokenizer",
      [perTurnMs],
      "<= 1 ms in the server, tokenizer apart",
    ),
  ];
}

/** Answers with calls made beforehand, so that the model costs nothing. */
function anInstantEngine(): Engine {
  const scripted = createScriptedEngine({
    clock: systemClock,
    model: "policy",
    script: () => "",
    contextTokensMax: 1_000_000,
  });
  const replies = Array.from({ length: 64 }, (_, nth) => {
    const text = `<tool_call>{"name":"think","arguments":{"thought":"${nth}"}}</tool_call>`.padEnd(62, " ");
    const ids = Int32Array.from([...encodeScripted(text).ids, SCRIPTED_END_ID]);
    const logprobs = Float32Array.from(ids, () => -0.5);
    return {
      ids,
      logprobs,
      finishReason: "stop",
      stopReason: null,
      versions: [],
      cachedTokens: null,
      firstTokenMs: 0,
      generationMs: 0,
      endpoint: "bench",
    } satisfies Completion;
  });
  let calls = 0;
  return { ...scripted, complete: () => Promise.resolve(replies[calls++ % replies.length] as Completion) };
}
