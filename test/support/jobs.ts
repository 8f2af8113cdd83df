/** Builders: each gives a whole, legal value; a test sets only what it is about. */
import type { Carry, JobRequest, Outcome, Verdict } from "../../src/job/job.ts";
import { DEFAULT_LIMITS, type JobLimits } from "../../src/job/limits.ts";
import type { NewGroup, RunEnd } from "../../src/store/store.ts";
import type { Branch } from "../../src/trajectory/branch.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";
import type { ToolResult, TurnRecord } from "../../src/trajectory/turn.ts";

export function aRequest(over: Partial<Omit<JobRequest, "limits">> & { limits?: Partial<JobLimits> } = {}): JobRequest {
  return {
    model: "policy",
    tokenExact: true,
    sampling: DEFAULT_SAMPLING,
    priority: 0,
    stream: null,
    labels: {},
    ...over,
    limits: { ...DEFAULT_LIMITS, ...over.limits },
  };
}

export function aGroup(over: Partial<NewGroup> = {}): NewGroup {
  const taskId = over.taskId ?? "sums/1";
  return {
    taskId,
    handler: "math",
    taskJson: JSON.stringify({ id: taskId, handler: "math", prompt: "1+1?", answer: "2" }),
    n: 1,
    request: aRequest(),
    ...over,
  };
}

/** Three prompt tokens and two sampled ones. */
export function aTurn(over: Partial<TurnRecord> = {}): TurnRecord {
  return {
    index: 0,
    branch: 0,
    contextStart: 0,
    parent: null,
    drift: "clean",
    promptIds: Int32Array.of(11, 12, 13),
    promptContent: Uint8Array.of(0, 1, 0),
    promptMessage: Int32Array.of(-1, 0, -1),
    promptMessages: [{ role: "user", content: "3 + 4?" }],
    sampledIds: Int32Array.of(21, 22),
    logprobs: Float32Array.of(-0.5, -0.25),
    versions: [{ version: "7", start: 0, end: 2 }],
    sampling: DEFAULT_SAMPLING,
    finishReason: "stop",
    stopReason: null,
    messageIndex: 1,
    message: { role: "assistant", content: "2" },
    parse: "ok",
    backendId: "bck_1",
    requestId: "req_1",
    endpoint: "/completion",
    cachedTokens: null,
    queueMs: 1,
    firstTokenMs: 12.5,
    generationMs: 40,
    hash: "00",
    ...over,
  };
}

/** The branch that `aTurn` makes. */
export function aBranch(over: Partial<Branch> = {}): Branch {
  return {
    id: 0,
    parent: null,
    sharedTokens: 0,
    promptTokens: 3,
    tokenIds: Int32Array.of(11, 12, 13, 21, 22),
    lossMask: Uint8Array.of(0, 0, 0, 1, 1),
    logprobs: Float32Array.of(0, 0, 0, -0.5, -0.25),
    temperatures: Float32Array.of(0, 0, 0, 1, 1),
    isContent: Uint8Array.of(0, 1, 0, 1, 0),
    messageIndex: Int32Array.of(-1, 0, -1, 1, 1),
    versions: [{ version: "7", start: 3, end: 5 }],
    turns: [{ turn: 0, start: 3, end: 5 }],
    ...over,
  };
}

export function aToolResult(over: Partial<ToolResult> = {}): ToolResult {
  return {
    callId: "call_1",
    tool: "python",
    output: "2\n",
    exitCode: 0,
    signal: null,
    timedOut: false,
    truncated: false,
    artifacts: [],
    ms: 12,
    ...over,
  };
}

export function anOutcome(over: Partial<Outcome> = {}): Outcome {
  return {
    status: "completed",
    endReason: "answered",
    reward: null,
    rewards: {},
    trainable: false,
    grading: null,
    error: null,
    turns: 1,
    promptTokens: 3,
    sampledTokens: 2,
    policyVersionMin: "7",
    policyVersionMax: "7",
    ledger: "exact",
    ...over,
  };
}

export function aRunEnd(job: { jobId: string; attemptId: string }, over: Partial<RunEnd> = {}): RunEnd {
  const carry: Carry = { answer: "2", artifacts: [] };
  return {
    ...job,
    carry,
    messages: [
      { role: "user", content: "1+1?" },
      { role: "assistant", content: "2" },
    ],
    tools: [],
    network: null,
    branches: [aBranch()],
    model: { tokenizerHash: "tok", templateHash: "tpl", renderer: "local", logprobsMode: "processed" },
    outcome: anOutcome(),
    timing: { runMs: 100, llmMs: 80, toolMs: 10 },
    backendIds: ["bck_1"],
    ...over,
  };
}

export function aVerdict(over: Partial<Verdict> = {}): Verdict {
  return {
    reward: 1,
    rewards: { equivalent: 1 },
    report: { expected: "2" },
    log: "2 = 2",
    grading: "separate",
    ...over,
  };
}
