import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Clock, systemClock } from "../../../src/clock.ts";
import type { CompletionRequest } from "../../../src/llm/engine.ts";
import { createReplayEngine } from "../../../src/llm/engines/replay.ts";
import { createScriptedSource, encodeScripted, SCRIPTED_END_ID } from "../../../src/llm/engines/scripted-source.ts";
import { TemplateRenderer } from "../../../src/tokens/template-renderer.ts";
import { DEFAULT_SAMPLING } from "../../../src/trajectory/sampling.ts";
import { engineContract } from "../../contract/engine.contract.ts";

const never = new AbortController().signal;
const renderer = new TemplateRenderer(createScriptedSource());
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rolloutd-replay-"));
});
afterAll(async () => {
  await rm(folder, { recursive: true });
});

/** A native trajectory of one branch; each turn answers with its text and the end of a turn. */
async function aTrajectory(texts: readonly string[], over: Record<string, unknown> = {}) {
  const ids = [...(await renderer.renderPrompt([{ role: "user", content: "Say hello." }], [])).ids];
  const turns: unknown[] = [];
  const logprobs: number[] = ids.map(() => 0);
  for (const [index, text] of texts.entries()) {
    if (index > 0) {
      const { ids: delta } = await renderer.renderDelta([{ role: "user", content: "Go on." }], [], true);
      ids.push(...delta);
      logprobs.push(...Array.from(delta, () => 0));
    }
    const start = ids.length;
    ids.push(...encodeScripted(text).ids, SCRIPTED_END_ID);
    for (let at = start; at < ids.length; at += 1) logprobs.push(-((at % 7) + 1) / 8);
    turns.push({ index, start, end: ids.length, finish_reason: "stop", stop_reason: null, generation_ms: 1_000 });
  }
  const versions = [
    { version: "7", start: 0, end: ids.length - 3 },
    { version: "8", start: ids.length - 3, end: ids.length },
  ];
  return {
    schema_version: 1,
    model: "policy",
    tokenizer_hash: renderer.tokenizerHash,
    template_hash: renderer.templateHash,
    logprobs_mode: "processed",
    branches: [{ token_ids: ids, logprobs, versions, turns }],
    ...over,
  };
}

async function aFile(name: string, lines: readonly unknown[]): Promise<string> {
  const path = join(folder, name);
  await Bun.write(path, lines.map((line) => JSON.stringify(line)).join("\n"));
  return path;
}

engineContract("replay engine", async () => {
  let waiting = 0;
  const clock: Clock = {
    ...systemClock,
    async sleep(ms, signal) {
      waiting += 1;
      await systemClock.sleep(ms, signal);
      waiting -= 1;
    },
  };
  const path = await aFile("contract.jsonl", [await aTrajectory(["Hello, how may I help?"])]);
  const turnMs = (recordedMs: number, { sampling }: CompletionRequest) => (sampling.maxTokens === 512 ? recordedMs : 0);
  return {
    engine: createReplayEngine({ clock, path, turnMs }),
    absent: createReplayEngine({ clock, path: join(folder, "absent.jsonl") }),
    inFlight: async () => waiting,
    long: { maxTokens: 512 },
    [Symbol.asyncDispose]: async () => {},
  };
});

describe("createReplayEngine", () => {
  const promptOf = async () => (await renderer.renderPrompt([{ role: "user", content: "Say hello." }], [])).ids;

  test("answers a session turn by turn with its ids, log-probs and versions", async () => {
    const trajectory = await aTrajectory(["one", "two"]);
    const engine = createReplayEngine({ clock: systemClock, path: await aFile("two.jsonl", [{ trajectory }]) });
    const [branch] = trajectory.branches;
    const first = await engine.complete(request(await promptOf()), never);
    expect(await renderer.decode(first.ids, false)).toBe("one");
    const { ids: delta } = await renderer.renderDelta([{ role: "user", content: "Go on." }], [], true);
    const prompt = Int32Array.from([...(await promptOf()), ...first.ids, ...delta]);
    const second = await engine.complete(request(prompt), never);
    expect([...second.ids]).toEqual(branch?.token_ids.slice(prompt.length) ?? []);
    expect([...second.logprobs]).toEqual([...Float32Array.from(branch?.logprobs.slice(prompt.length) ?? [])]);
    expect(second.versions).toEqual([
      { version: "7", start: 0, end: second.ids.length - 3 },
      { version: "8", start: second.ids.length - 3, end: second.ids.length },
    ]);
    expect(second.finishReason).toBe("stop");
  });

  test("gives siblings the recorded turns one after another, and begins again", async () => {
    const lines = [await aTrajectory(["a"]), await aTrajectory(["b"])];
    const engine = createReplayEngine({ clock: systemClock, path: await aFile("siblings.jsonl", lines) });
    const said: string[] = [];
    for (let at = 0; at < 3; at += 1) {
      said.push(await renderer.decode((await engine.complete(request(await promptOf()), never)).ids, false));
    }
    expect(said).toEqual(["a", "b", "a"]);
  });

  test("refuses a prompt that was never sent", async () => {
    const path = await aFile("one.jsonl", [await aTrajectory(["a"])]);
    const engine = createReplayEngine({ clock: systemClock, path });
    const error = await engine.complete(request(Int32Array.from([1, 2, 3])), never).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ reason: "backend_invalid" });
    expect(String(error)).toContain("no recorded turn has this prompt of 3 tokens");
  });

  test.each([
    ["nothing", []],
    ["something else", [{ hello: 1 }]],
  ])("is no backend when the file holds %s", async (name, lines) => {
    const engine = createReplayEngine({ clock: systemClock, path: await aFile(`${name}.jsonl`, lines) });
    expect(await engine.probe(never).catch((thrown: unknown) => thrown)).toMatchObject({ reason: "backend_invalid" });
  });

  test("is no backend when the file holds two models, and needs a tokenizer folder for ids of another tokenizer", async () => {
    const lines = [await aTrajectory(["a"]), await aTrajectory(["a"], { model: "other" })];
    const mixed = createReplayEngine({ clock: systemClock, path: await aFile("mixed.jsonl", lines) });
    expect(await mixed.probe(never).catch((thrown: unknown) => thrown)).toMatchObject({ reason: "backend_invalid" });
    const path = await aFile("foreign.jsonl", [await aTrajectory(["a"], { tokenizer_hash: "other" })]);
    const foreign = createReplayEngine({ clock: systemClock, path });
    const error = await foreign.remoteRenderer(never).catch((thrown: unknown) => thrown);
    expect(String(error)).toContain("tokenizer folder");
  });
});

function request(ids: Int32Array): CompletionRequest {
  return {
    ids,
    sampling: { ...DEFAULT_SAMPLING, maxTokens: 100 },
    stopTokenIds: renderer.endIds,
    cacheSalt: "7",
    sessionId: "job_1",
    requestId: "req_1",
  };
}
