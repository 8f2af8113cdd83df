import { z } from "zod";
import type { ApiClient } from "./api-client.ts";
import { formatMs, formatReward, formatTable } from "./table.ts";
import { WireJob } from "./wire.ts";

const ToolResult = z.object({
  tool: z.string(),
  output: z.string(),
  exit_code: z.number().nullable(),
  signal: z.string().nullable(),
  timed_out: z.boolean(),
  truncated: z.boolean(),
  ms: z.number(),
});

const Trajectory = z.object({
  tokenizer_hash: z.string().nullable(),
  renderer: z.string().nullable(),
  logprobs_mode: z.string().nullable(),
  messages: z.array(
    z.object({
      role: z.string(),
      content: z.string(),
      tool_calls: z.array(z.object({ name: z.string(), arguments: z.string() })).optional(),
    }),
  ),
  branches: z.array(
    z.object({
      id: z.number(),
      parent: z.number().nullable(),
      shared_tokens: z.number(),
      token_ids: z.array(z.number()),
      loss_mask: z.array(z.number()),
      logprobs: z.array(z.number()),
      message_index: z.array(z.number()),
      versions: z.array(z.object({ version: z.string(), start: z.number(), end: z.number() })),
      turns: z.array(
        z.object({
          start: z.number(),
          end: z.number(),
          backend_id: z.string(),
          finish_reason: z.string(),
          parse: z.string(),
          generation_ms: z.number(),
          tool_results: z.array(ToolResult),
        }),
      ),
    }),
  ),
  evaluation: z.object({ report: z.record(z.string(), z.unknown()), log: z.string() }).nullable(),
});
type Trajectory = z.infer<typeof Trajectory>;
type Branch = Trajectory["branches"][number];

/** `rolloutd show JOB`: the job's outcome, its conversation, and which tokens of each turn are trained. */
export async function showJob(client: ApiClient, jobId: string, options: { tokens: boolean }): Promise<void> {
  const job = await client.get(`/v1/jobs/${encodeURIComponent(jobId)}`, WireJob);
  console.log(describeJob(job));
  const partial = job.state === "finished" ? "" : "&partial=true";
  const path = `/v1/jobs/${encodeURIComponent(jobId)}/trajectory?format=native${partial}`;
  const trajectory = await client.get(path, Trajectory);
  for (const branch of trajectory.branches) console.log(describeBranch(trajectory, branch));
  if (options.tokens) for (const branch of trajectory.branches) console.log(tokenTable(branch));
  if (trajectory.evaluation === null) return;
  console.log(`\nevaluation\n${JSON.stringify(trajectory.evaluation.report, null, 2)}`);
  if (trajectory.evaluation.log.trim() !== "") console.log(trajectory.evaluation.log.trimEnd());
}

function describeJob(job: WireJob): string {
  const { outcome, timing } = job;
  const lines = [`${job.id}  ${job.task_id}  ${job.handler}  ${job.state}`];
  if (outcome !== null) {
    lines.push(
      `${outcome.status}: ${outcome.end_reason}, reward ${formatReward(outcome.reward)}, trainable ${outcome.trainable}, ledger ${outcome.ledger}`,
      `${outcome.turns} turns, ${outcome.prompt_tokens} prompt tokens, ${outcome.sampled_tokens} sampled, policy ${outcome.policy_version_min ?? "-"}..${outcome.policy_version_max ?? "-"}`,
    );
    if (outcome.error !== null)
      lines.push(`error in ${outcome.error.stage}: ${outcome.error.reason}: ${outcome.error.detail}`);
  }
  lines.push(
    Object.entries(timing)
      .map(([part, ms]) => `${part.replace(/_ms$/, "")} ${formatMs(ms)}`)
      .join(", "),
  );
  for (const [at, attempt] of job.attempts.entries()) {
    if (job.attempts.length > 1)
      lines.push(`attempt ${at + 1}: ${attempt.stage}, ${attempt.end_reason ?? "under way"}`);
  }
  for (const artifact of job.artifacts) lines.push(`artifact ${artifact.name}, ${artifact.bytes} bytes`);
  return lines.join("\n");
}

function describeBranch(trajectory: Trajectory, branch: Branch): string {
  const trained = branch.loss_mask.reduce((sum, bit) => sum + bit, 0);
  const from = branch.parent === null ? "" : `, shares ${branch.shared_tokens} with branch ${branch.parent}`;
  const lines = [`\nbranch ${branch.id}: ${branch.token_ids.length} tokens, ${trained} trained${from}`];
  const turnsByMessage = new Map(branch.turns.map((turn) => [branch.message_index[turn.start], turn]));
  for (const [index, message] of trajectory.messages.entries()) {
    const turn = turnsByMessage.get(index);
    lines.push(`\n[${message.role}]${turn ? ` ${describeTurn(branch, turn)}` : " not trained"}`, message.content);
    for (const call of message.tool_calls ?? []) lines.push(`-> ${call.name} ${call.arguments}`);
    for (const result of turn?.tool_results ?? []) {
      const signal = result.signal === null ? "" : ` (${result.signal})`;
      const code = result.exit_code === null ? "" : `, exit code ${result.exit_code}${signal}`;
      lines.push(`<- ${result.tool}${code}${result.timed_out ? ", timed out" : ""}, ${formatMs(result.ms)}`);
    }
  }
  return lines.join("\n");
}

function describeTurn(branch: Branch, turn: Branch["turns"][number]): string {
  const logprobs = branch.logprobs.slice(turn.start, turn.end);
  const mean = logprobs.reduce((sum, value) => sum + value, 0) / Math.max(logprobs.length, 1);
  const least = Math.min(0, ...logprobs);
  const trained = branch.loss_mask.slice(turn.start, turn.end).reduce((sum, bit) => sum + bit, 0);
  return `tokens ${turn.start}..${turn.end}, ${trained} trained, log-prob mean ${mean.toFixed(3)} least ${least.toFixed(3)}, ${turn.finish_reason}, ${formatMs(turn.generation_ms)}, ${turn.backend_id}`;
}

function tokenTable(branch: Branch): string {
  const version = (at: number) => branch.versions.find((span) => at >= span.start && at < span.end)?.version ?? "";
  const rows = branch.token_ids.map((id, at) => [
    at,
    id,
    branch.loss_mask[at] ?? 0,
    branch.loss_mask[at] === 1 ? (branch.logprobs[at] ?? 0).toFixed(4) : "",
    branch.message_index[at] ?? -1,
    version(at),
  ]);
  return `\nbranch ${branch.id}\n${formatTable([["position", "id", "mask", "log-prob", "message", "version"], ...rows])}`;
}
