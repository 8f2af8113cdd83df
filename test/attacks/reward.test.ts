import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { aPipeline } from "../support/pipeline.ts";
import { REWARD } from "./reward.ts";

setDefaultTimeout(60_000);

/** Ends the job, as it calls no tool. */
const LAST_TURN = "I am done.";

describe("attacks on the reward", () => {
  test.each(REWARD.map((attack) => ({ ...attack })))("$name: $must", async ({ task, turns, reward }) => {
    const before = residue();
    {
      const script = ({ prompt }: { prompt: string }) =>
        turns[prompt.split("<|start|>assistant\n").length - 2] ?? LAST_TURN;
      await using at = await aPipeline({ models: [{ script }] });
      const [jobId = ""] = await at.submit(task);
      const { outcome } = await at.finish(jobId);
      expect(outcome).toMatchObject({ status: "completed", reward, turns: turns.length + 1 });
    }
    expect(await leftSince(before)).toEqual(NOTHING);
  });

  test("are made against tasks that a right solution gets full marks for", async () => {
    const { task, turns } = rightSolution();
    const script = ({ prompt }: { prompt: string }) =>
      turns[prompt.split("<|start|>assistant\n").length - 2] ?? LAST_TURN;
    await using at = await aPipeline({ models: [{ script }] });
    const [jobId = ""] = await at.submit(task);
    expect((await at.finish(jobId)).outcome).toMatchObject({ status: "completed", reward: 1 });
  });
});

function rightSolution() {
  const found = REWARD.find(({ name }) => name === "an exit with success");
  const turn = "```bash\nprintf 'def add(a, b):\\n    return a + b\\n' >/workspace/solution.py\n```";
  return { task: found?.task ?? {}, turns: [turn] };
}
