import { z } from "zod";
import { defineTool } from "./define-tool.ts";
import { say } from "./observation.ts";

/** A place to write down a thought between calls; it does nothing. */
export const thinkTool = defineTool({
  name: "think",
  description: "Writes down a thought. Nothing is run and nothing changes.",
  arguments: z.strictObject({ thought: z.string().describe("the thought") }),
  needsSandbox: false,
  call: async () => say("The thought was noted."),
});
