import { z } from "zod";
import { LIMITS } from "../limits.ts";
import { parseNetworkRule, RULE_ACCEPTED } from "../network-rule.ts";

/**
 * What is asked, as it stands in files and on the wire (api.md, Task). Tasks arrive by both ways, so their wire shape
 * lives here and not in `http/`. Unknown fields of a task are its own and are given back; handlers check theirs.
 */
const File = z.strictObject({
  path: z
    .string()
    .regex(/^\/[^\0]*$/, "an absolute path")
    .max(1_024),
  text: z.string().optional(),
  base64: z.base64().optional(),
  mode: z.int().min(0).max(0o777).optional().describe("permission bits"),
});

const WireToolCall = z.strictObject({ id: z.string(), name: z.string(), arguments: z.string() });

const WireMessage = z.strictObject({
  role: z.enum(["system", "user", "assistant", "tool"]),
  content: z.string(),
  tool_calls: z.array(WireToolCall).max(64).optional(),
  tool_call_id: z.string().optional(),
  name: z.string().optional(),
  reasoning: z.string().nullable().optional(),
});

const Test = z.discriminatedUnion("kind", [
  z.strictObject({ kind: z.literal("assert"), code: z.string().min(1) }),
  z.strictObject({ kind: z.literal("stdio"), input: z.string(), output: z.string() }),
]);

export const TOOL_FORMATS = [
  "auto",
  "hermes",
  "qwen3_coder",
  "llama3_json",
  "mistral",
  "deepseek",
  "harmony",
  "fenced",
  "none",
] as const;
export const ToolFormat = z.enum(TOOL_FORMATS);
export type ToolFormat = z.infer<typeof ToolFormat>;

export const Task = z.looseObject({
  id: z.string().min(1).max(512).describe("unique in one request"),
  handler: z.string().min(1).max(128).describe("math, code or command: sets the agent up and grades it"),
  prompt: z.string().optional().describe("one user message; exactly one of prompt and messages"),
  messages: z
    .array(WireMessage)
    .min(1)
    .max(1_000)
    .optional()
    .describe("the whole conversation; replaces the handler's system prompt, and none of it is trained"),
  image: z.string().min(1).max(256).default("host").describe("root file system of the sandboxes"),
  tools: z
    .array(z.string())
    .max(32)
    .optional()
    .describe("bash, python, edit, think, finish; default: the handler's own"),
  tool_format: ToolFormat.default("auto").describe(
    "how calls are written. none: the only turn is the answer; auto: as the model's chat template writes them where there are tools, else none",
  ),
  files: z
    .array(File)
    .max(LIMITS.taskFilesMax)
    .default([])
    .describe("written into the agent's sandbox before it starts"),
  answer: z.union([z.string(), z.number()]).optional().describe("math: the number that is right"),
  tests: z.array(Test).max(1_000).optional().describe("code: hidden from the agent; each assert and stdio test counts"),
  eval: z
    .strictObject({
      command: z.array(z.string()).min(1).max(256),
      files: z.array(File).max(LIMITS.taskFilesMax).default([]),
    })
    .optional()
    .describe("command: the grader; the last line it prints is the reward or an object with it"),
  network: z
    .strictObject({
      allow: z
        .array(z.string().refine((rule) => parseNetworkRule(rule) !== null, `is no rule; accepted: ${RULE_ACCEPTED}`))
        .max(LIMITS.networkRulesMax),
    })
    .optional()
    .describe(`servers that the agent's sandbox may reach: ${RULE_ACCEPTED}; default: none`),
  limits: z.record(z.string(), z.unknown()).default({}).describe("this task's own; they win over the request's"),
  metadata: z.record(z.string(), z.unknown()).default({}),
});
/** A task that passed the schema; `messages` is still optional here, use `taskMessages`. */
export type Task = z.infer<typeof Task>;
export type TaskFile = z.infer<typeof File>;
