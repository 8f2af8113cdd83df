import { z } from "zod";
import type { Branch } from "../trajectory/branch.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { TurnRecord } from "../trajectory/turn.ts";

/** The parts of a native trajectory (api.md) that say which tokens were sent and sampled, as they stand in a file. */
const int = z.int();
const WireSampling = z.object({
  temperature: z.number(),
  top_p: z.number(),
  top_k: int,
  min_p: z.number(),
  max_tokens: int,
  seed: int.nullable(),
  stop: z.array(z.string()),
});
const WireTurn = z.object({
  index: int,
  start: int,
  end: int,
  backend_id: z.string(),
  request_id: z.string(),
  endpoint: z.string(),
  sampling: WireSampling,
  finish_reason: z.enum(["stop", "length", "abort"]),
  stop_reason: z.union([z.string(), z.number()]).nullable(),
  drift: z.enum(["clean", "fork"]),
  parse: z.enum(["ok", "none", "malformed"]),
  hash: z.string(),
});
const WireBranch = z.object({
  id: int,
  parent: int.nullable(),
  shared_tokens: int,
  prompt_tokens: int,
  token_ids: z.array(int),
  loss_mask: z.array(int),
  logprobs: z.array(z.number()),
  temperatures: z.array(z.number()),
  is_content: z.array(int),
  message_index: z.array(int),
  versions: z.array(z.object({ version: z.string(), start: int, end: int })),
  turns: z.array(WireTurn),
});
export const NativeTrajectory = z.object({
  schema_version: z.literal(1),
  job_id: z.string(),
  task_id: z.string(),
  hash: z.string().nullable().optional(),
  branches: z.array(WireBranch),
});
export type NativeTrajectory = z.infer<typeof NativeTrajectory>;

/**
 * Turn records, branches and the end of the chain of a trajectory that was exported: what `verify` takes. The records are cut out of the
 * branches, so a change shows by the hash of its turn; masks and temperatures, which no hash covers, by their position.
 */
export function readNative(trajectory: NativeTrajectory): {
  turns: TurnRecord[];
  branches: Branch[];
  lastHash: string | null;
} {
  const branches = trajectory.branches.map(toBranch);
  const turns = trajectory.branches.flatMap((wire, at) => {
    const branch = branches[at];
    return branch ? wire.turns.map((turn, nth) => toRecord(wire, branch, { turn, nth })) : [];
  });
  return { turns: turns.sort((left, right) => left.index - right.index), branches, lastHash: trajectory.hash ?? null };
}

function toBranch(wire: z.infer<typeof WireBranch>): Branch {
  return {
    id: wire.id,
    parent: wire.parent,
    sharedTokens: wire.shared_tokens,
    promptTokens: wire.prompt_tokens,
    tokenIds: Int32Array.from(wire.token_ids),
    lossMask: Uint8Array.from(wire.loss_mask),
    logprobs: Float32Array.from(wire.logprobs),
    temperatures: Float32Array.from(wire.temperatures),
    isContent: Uint8Array.from(wire.is_content),
    messageIndex: Int32Array.from(wire.message_index),
    versions: wire.versions,
    turns: wire.turns.map(({ index, start, end }) => ({ turn: index, start, end })),
  };
}

function toRecord(
  wire: z.infer<typeof WireBranch>,
  branch: Branch,
  { turn, nth }: { turn: z.infer<typeof WireTurn>; nth: number },
): TurnRecord {
  const { start, end } = turn;
  const contextStart = nth === 0 ? wire.shared_tokens : (wire.turns[nth - 1]?.end ?? 0);
  return {
    index: turn.index,
    branch: wire.id,
    contextStart,
    parent: turn.drift === "fork" ? wire.parent : null,
    drift: turn.drift,
    promptIds: branch.tokenIds.slice(contextStart, start),
    promptContent: branch.isContent.slice(contextStart, start),
    promptMessage: branch.messageIndex.slice(contextStart, start),
    sampledIds: branch.tokenIds.slice(start, end),
    logprobs: branch.logprobs.slice(start, end),
    versions: wire.versions.flatMap((span) => {
      const clipped = { version: span.version, start: Math.max(span.start, start), end: Math.min(span.end, end) };
      return clipped.start < clipped.end
        ? [{ ...clipped, start: clipped.start - start, end: clipped.end - start }]
        : [];
    }),
    sampling: toSampling(turn.sampling),
    finishReason: turn.finish_reason,
    stopReason: turn.stop_reason,
    promptMessages: [],
    messageIndex: branch.messageIndex[start] ?? -1,
    message: { role: "assistant", content: "" },
    parse: turn.parse,
    backendId: turn.backend_id,
    requestId: turn.request_id,
    endpoint: turn.endpoint,
    cachedTokens: null,
    queueMs: 0,
    firstTokenMs: null,
    generationMs: 0,
    hash: turn.hash,
  };
}

function toSampling(wire: z.infer<typeof WireSampling>): Sampling {
  return {
    temperature: wire.temperature,
    topP: wire.top_p,
    topK: wire.top_k,
    minP: wire.min_p,
    maxTokens: wire.max_tokens,
    seed: wire.seed,
    stop: wire.stop,
  };
}
