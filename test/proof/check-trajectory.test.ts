import { describe, expect, test } from "bun:test";
import { checkTrajectory } from "../../scripts/proof/check-trajectory.ts";
import type { Recorded } from "../../scripts/proof/recording-proxy.ts";
import type { NativeTrajectory } from "../../src/formats/native.ts";

const IDS = [5, 6, 7, 8];
const LOGPROBS = [0, 0, -0.5, -1.25];

/** A server that gives the log-probs of `LOGPROBS`, whatever it is asked. */
function aScorer() {
  const entries = IDS.map((id, at) => (at === 0 ? null : { [id]: { logprob: LOGPROBS[at] } }));
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: () => Response.json({ choices: [{ prompt_logprobs: entries }] }),
  });
  return { url: `http://127.0.0.1:${server.port}`, [Symbol.asyncDispose]: () => server.stop(true) };
}

/** One branch of two prompt tokens and one turn of two. */
function aTrajectory(over: { token_ids?: number[]; logprobs?: number[] } = {}): NativeTrajectory {
  const sampling = { temperature: 1, top_p: 1, top_k: -1, min_p: 0, max_tokens: 2, seed: null, stop: [] };
  const turn = { index: 0, start: 2, end: 4, backend_id: "bck_1", request_id: "req_1", endpoint: "e", sampling };
  const end = { finish_reason: "stop", stop_reason: null, drift: "clean", parse: "none", hash: "" } as const;
  const branch = {
    id: 0,
    parent: null,
    shared_tokens: 0,
    prompt_tokens: 2,
    token_ids: IDS,
    loss_mask: [0, 0, 1, 1],
    logprobs: LOGPROBS,
    temperatures: [0, 0, 1, 1],
    is_content: [1, 1, 1, 1],
    message_index: [0, 0, 1, 1],
    versions: [{ version: "0", start: 2, end: 4 }],
    turns: [{ ...turn, ...end }],
    ...over,
  };
  return { schema_version: 1, job_id: "job_1", task_id: "t", branches: [branch] };
}

const ANSWER: Recorded = { prompt: [5, 6], ids: [7, 8], logprobs: [-0.5, -1.25], finishReason: "stop" };

async function faultsOf(trajectory: NativeTrajectory, answer: Recorded | null = ANSWER): Promise<string[]> {
  await using scorer = aScorer();
  const answers = new Map(answer === null ? [] : [["req_1", answer]]);
  return (await checkTrajectory(trajectory, { url: scorer.url, model: "m", answers })).faults;
}

describe("checkTrajectory", () => {
  test("finds nothing where ids and log-probs are those of the server, and says what it compared", async () => {
    await using scorer = aScorer();
    const on = { url: scorer.url, model: "m", answers: new Map([["req_1", ANSWER]]) };
    expect(await checkTrajectory(aTrajectory(), on)).toEqual({
      branches: 1,
      turns: 1,
      sampledTokens: 2,
      differenceMax: 0,
      faults: [],
    });
  });

  test.each([
    ["a prompt token", { prompt: [5, 9] }, "the prompt is not the one that was sent"],
    ["a sampled token", { ids: [7, 9] }, "the ids are not those that the server returned"],
    ["a token more", { ids: [7, 8, 9] }, "the ids are not those that the server returned"],
    ["a log-prob", { logprobs: [-0.5, -1.26] }, "the log-probs are not those that the server returned"],
    ["the end", { finishReason: "length" }, "it ended with length on the server"],
  ] as const)("tells where the server returned otherwise: %s", async (_what, over, fault) => {
    expect(await faultsOf(aTrajectory(), { ...ANSWER, ...over } as Recorded)).toEqual([
      `t job_1 branch 0 turn 0: ${fault}`,
    ]);
  });

  test("tells where no answer was recorded", async () => {
    expect(await faultsOf(aTrajectory(), null)).toEqual(["t job_1 branch 0 turn 0: the server was never asked req_1"]);
  });

  test("tells which token's log-prob the server does not give again", async () => {
    const wrong = aTrajectory({ logprobs: [0, 0, -0.5, -1.252] });
    const answer = { ...ANSWER, logprobs: [-0.5, -1.252] };
    expect(await faultsOf(wrong, answer)).toEqual(["t job_1 branch 0 token 3: stored -1.252, scored again -1.25"]);
  });

  test("tells where the server knows no log-prob for a stored token", async () => {
    const wrong = aTrajectory({ token_ids: [5, 6, 7, 9] });
    const answer = { ...ANSWER, ids: [7, 9] };
    expect(await faultsOf(wrong, answer)).toEqual(["t job_1 branch 0 token 3: stored -1.25, scored again NaN"]);
  });
});
