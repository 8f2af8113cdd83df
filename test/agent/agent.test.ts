import { describe, expect, test } from "bun:test";
import { type AgentParts, type AgentTask, runAgent } from "../../src/agent/agent.ts";
import { systemClock } from "../../src/clock.ts";
import { RolloutError } from "../../src/errors.ts";
import type { ModelSession } from "../../src/llm/engine.ts";
import { createScriptedEngine, type ScriptedOptions } from "../../src/llm/engines/scripted.ts";
import { createBackends } from "../../src/llm/registry.ts";
import { silentLog } from "../../src/log.ts";
import { createToolbox } from "../../src/tools/toolbox.ts";
import { assemble } from "../../src/trajectory/assemble.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import type { ToolResult, TurnRecord } from "../../src/trajectory/turn.ts";
import { verify } from "../../src/trajectory/verify.ts";
import { rejectionOf } from "../support/store.ts";

const TASK: AgentTask = {
  messages: [{ role: "user", content: "Go." }],
  format: "hermes",
  sampling: DEFAULT_SAMPLING,
  budget: { turnsMax: 5, tokensMax: 10_000 },
  toolMs: 1_000,
  outputChars: 16_384,
};
const call = (name: string, args: unknown) => `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`;

/** An agent without a sandbox on a scripted model; what it wrote down is kept. */
async function run(
  script: ScriptedOptions["script"],
  task: Partial<AgentTask> = {},
  signal = new AbortController().signal,
  wrap: (session: ModelSession) => Partial<ModelSession> = () => ({}),
) {
  const engine = createScriptedEngine({ clock: systemClock, model: "policy", script });
  const options = { clock: systemClock, log: silentLog, backendWaitMs: 100, turnMs: 1_000, engineFor: () => engine };
  await using backends = await createBackends(options);
  const spec = {
    url: "http://scripted",
    model: "policy",
    role: "policy",
    kind: "auto",
    apiKey: null,
    weight: 1,
    policyVersion: null,
    tokenizer: null,
  } as const;
  await backends.add(spec, { probe: true });
  const session = await backends.openSession({ model: "policy", jobId: "job_1", signal });
  const turns: TurnRecord[] = [];
  const results: ToolResult[] = [];
  const order: string[] = [];
  const journal: AgentParts["journal"] = {
    async saveTurn(record) {
      order.push(`turn ${record.index}`);
      turns.push(record);
    },
    async saveToolResults(turn, answers) {
      order.push(`results of ${turn}`);
      results.push(...answers);
    },
  };
  try {
    const toolbox = createToolbox(["think", "finish"]);
    const over = wrap(session);
    const own = new Proxy(session, {
      get(target, name) {
        const value: unknown = Reflect.get(name in over ? over : target, name);
        return typeof value === "function" ? value.bind(name in over ? over : target) : value;
      },
    });
    const end = await runAgent({ session: own, toolbox, sandbox: null, journal }, { ...TASK, ...task }, signal);
    return { end, turns, results, order };
  } finally {
    session.close();
  }
}

describe("runAgent", () => {
  test("ends with the answer that finish was given, after writing the call down", async () => {
    const { end, order, turns } = await run(({ index }) =>
      index === 0 ? call("think", { thought: "hm" }) : call("finish", { answer: "42" }),
    );
    expect(end).toMatchObject({ reason: "answered", answer: "42" });
    expect(order).toEqual(["turn 0", "results of 0", "turn 1", "results of 1"]);
    expect(verify(turns, assemble(turns)).verdict).toBe("exact");
  });

  test("sends every prompt as all that was sent and sampled before, and the rendered answers", async () => {
    const prompts: Int32Array[] = [];
    const { turns } = await run(({ index, request }) => {
      prompts.push(request.ids);
      return index < 2 ? call("think", { thought: String(index) }) : "Done.";
    });
    expect(prompts).toHaveLength(3);
    for (const [at, turn] of turns.entries()) {
      if (at === 0) continue;
      const before = [...(prompts[at - 1] ?? []), ...(turns[at - 1]?.sampledIds ?? [])];
      expect([...(prompts[at] ?? [])].slice(0, before.length)).toEqual(before);
      expect(turn.contextStart).toBe(before.length);
      expect(turn.promptMessages.map((message) => message.role)).toEqual(["tool"]);
    }
  });

  test("answers a call that cannot be read or run, and lets the model go on", async () => {
    const replies = [
      "<tool_call>{not json}</tool_call>",
      call("nonsense", {}),
      call("finish", { wrong: 1 }),
      call("finish", { answer: "ok" }),
    ];
    const { end, results, turns } = await run(({ index }) => replies[index] ?? "");
    expect(end).toMatchObject({ reason: "answered", answer: "ok" });
    expect(turns.map((turn) => turn.parse)).toEqual(["malformed", "ok", "ok", "ok"]);
    expect(results[0]?.output).toContain("There is no tool");
    expect(results[1]?.output).toContain("arguments of finish are wrong");
  });

  test("adds nothing to the prompt when no tool of the format is offered", async () => {
    const { turns } = await run(() => "Done.", { format: "fenced" });
    expect(turns[0]?.promptMessages[0]?.role).toBe("user");
  });

  test("is truncated by tokens_max in mid-turn, and the cut turn is kept", async () => {
    const { end, turns } = await run(() => "a long answer", { budget: { ...TASK.budget, tokensMax: 4 } });
    expect(end).toMatchObject({ reason: "tokens_max", answer: "a lo" });
    expect(turns[0]).toMatchObject({ finishReason: "length" });
    expect(turns[0]?.sampledIds).toHaveLength(4);
  });

  test("ends as run_timeout with what it has when its time is up", async () => {
    const time = new AbortController();
    const { end, turns } = await run(
      ({ index }) => {
        if (index === 1) time.abort(new RolloutError("run_timeout", "late"));
        return call("think", { thought: "hm" });
      },
      {},
      time.signal,
    );
    expect(end.reason).toBe("run_timeout");
    expect(turns.length).toBeLessThanOrEqual(2);
  });

  test("rejects with the reason when it is cancelled", async () => {
    const cancel = new AbortController();
    const ended = run(
      () => {
        cancel.abort(new RolloutError("cancelled", "by request"));
        return call("think", { thought: "hm" });
      },
      {},
      cancel.signal,
    );
    expect(await rejectionOf(ended)).toMatchObject({ reason: "cancelled" });
  });

  test("ends with context_overflow, keeping its turns, when the backend it moved to has a smaller context", async () => {
    const think = () => call("think", { thought: "hm" });
    let sent = 0;
    const overflow = new RolloutError("context_overflow", "900 tokens leave no room in 512");
    const moved = await run(think, {}, undefined, (session) => ({
      complete: (ids, sampling, signal) =>
        ++sent < 3 ? session.complete(ids, sampling, signal) : Promise.reject(overflow),
    }));
    expect(moved.end).toMatchObject({ reason: "context_overflow" });
    expect(moved.turns).toHaveLength(2);

    const shrunk = await run(think, {}, undefined, (session) => ({
      get contextTokensMax() {
        return sent++ > 4 ? 1 : session.contextTokensMax;
      },
    }));
    expect(shrunk.end.reason).toBe("context_overflow");
  });
});
