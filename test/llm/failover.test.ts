import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { decodeScripted } from "../../src/llm/engines/scripted-source.ts";
import { createBackends } from "../../src/llm/registry.ts";
import { silentLog } from "../../src/log.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import { startFakeLlamaCpp } from "../support/fake-llamacpp.ts";
import { type FakeFault, type FakeOptions, type FakeServer, fakeLogprob } from "../support/fake-model.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";

const never = new AbortController().signal;
const FAULTS = ["die", "hang", "error500", "overload", "lengths", "nan", "abort", "garbage"] as const;

describe.each([
  ["vLLM", (options: FakeOptions) => startFakeVllm(options)],
  ["llama.cpp", (options: FakeOptions) => startFakeLlamaCpp(options)],
] as const)("two backends of %s over HTTP", (_name, start) => {
  test.each([...FAULTS])("finish every job with right ids and log-probs when one does: %s", async (fault) => {
    let broken: FakeFault = null;
    const servers: FakeServer[] = [start({ fault: () => broken }), start({})];
    const backends = await createBackends({ clock: systemClock, log: silentLog, backendWaitMs: 5_000, turnMs: 150 });
    for (const { url } of servers) {
      const plain = { model: null, role: "policy", kind: "auto", apiKey: null, weight: 1, policyVersion: "3" } as const;
      await backends.add({ url, ...plain, tokenizer: null }, { probe: true });
    }
    const sessions = await Promise.all(
      Array.from({ length: 4 }, (_, index) =>
        backends.openSession({ model: "fake", jobId: `job_${index}`, signal: never }),
      ),
    );
    const { ids } = (await sessions[0]?.renderer.renderPrompt([{ role: "user", content: "Hello" }], [])) ?? {
      ids: null,
    };
    if (ids === null) throw new Error("no session");
    broken = fault;
    const turns = await Promise.all(
      sessions.map((session) => session.complete(ids, { ...DEFAULT_SAMPLING, maxTokens: 64 }, never)),
    );
    const good = backends.list()[1]?.id ?? "";
    for (const turn of turns) {
      expect(turn.backendId).toBe(good);
      expect(decodeScripted([...turn.ids], false)).toBe("Hi 😀 there.");
      expect([...turn.logprobs]).toEqual(
        [...turn.ids].map((id, index) => Math.fround(fakeLogprob(id, ids.length + index))),
      );
      expect(turn.versions).toEqual([{ version: "3", start: 0, end: turn.ids.length }]);
    }
    expect(backends.list()[0]?.state).toBe("unhealthy");
    for (const session of sessions) session.close();
    expect(backends.list().map(({ load }) => load.jobs + load.turns + load.reservedTokens)).toEqual([0, 0]);
    await backends[Symbol.asyncDispose]();
    for (const server of servers) await server[Symbol.asyncDispose]();
  });
});
