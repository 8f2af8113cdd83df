import { z } from "zod";
import { defineTool } from "./define-tool.ts";
import { say } from "./observation.ts";

/** Ends the agent's work with its answer. */
export const finishTool = defineTool({
  name: "finish",
  description: "Ends the task. Call it once, when the work is done.",
  arguments: z.strictObject({
    answer: z
      .union([z.string(), z.number(), z.boolean()])
      .default("")
      .describe("the final answer, if the task asks for one"),
  }),
  needsSandbox: false,
  call: async ({ answer }) => ({ ...say("The task is finished."), final: String(answer) }),
});
