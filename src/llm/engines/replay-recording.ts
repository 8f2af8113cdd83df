import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { z } from "zod";
import { RolloutError } from "../../errors.ts";
import { LLM_LIMITS } from "../../limits.ts";
import { invalid } from "../fault.ts";

/** Of a native trajectory, what is needed to answer its turns again. */
const Trajectory = z.looseObject({
  model: z.string(),
  tokenizer_hash: z.string().nullable(),
  template_hash: z.string().nullable(),
  logprobs_mode: z.enum(["raw", "processed"]).nullable(),
  branches: z.array(
    z.looseObject({
      token_ids: z.array(z.int()),
      logprobs: z.array(z.number()),
      versions: z.array(z.looseObject({ version: z.string(), start: z.int(), end: z.int() })),
      turns: z.array(
        z.looseObject({
          index: z.int(),
          start: z.int().min(0),
          end: z.int().min(0),
          finish_reason: z.enum(["stop", "length", "abort"]),
          stop_reason: z.union([z.string(), z.number()]).nullable(),
          generation_ms: z.number().nullish(),
        }),
      ),
    }),
  ),
});
type Trajectory = z.infer<typeof Trajectory>;

/** A result with its trajectory, as `rolloutd results` writes them, or the trajectory alone. */
const Line = z.union([z.looseObject({ trajectory: Trajectory }).transform(({ trajectory }) => trajectory), Trajectory]);

export interface RecordedTurn {
  ids: Int32Array;
  logprobs: Float32Array;
  versions: { version: string; start: number; end: number }[];
  finishReason: "stop" | "length" | "abort";
  stopReason: number | string | null;
  generationMs: number;
}

export interface Recording {
  model: string;
  tokenizerHash: string | null;
  templateHash: string | null;
  logprobsMode: "raw" | "processed";
  /** Of the file's bytes. */
  hash: string;
  trajectories: number;
  turns: number;
  contextTokens: number;
  /** Turns that a prompt was answered with, in the file's order. */
  turnsOf(prompt: Int32Array): readonly RecordedTurn[];
}

/**
 * Reads trajectories in the native format, one a line. Throws RolloutError backend_unreachable when the file is not
 * there, and backend_invalid when it holds something else, or trajectories of several models.
 */
export async function readRecording(path: string): Promise<Recording> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new RolloutError("backend_unreachable", `${path} cannot be read: ${String(cause)}`, { cause });
  });
  if (text.length > LLM_LIMITS.recordingCharsMax) {
    throw invalid(path, `more than ${LLM_LIMITS.recordingCharsMax} characters`);
  }
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const all = lines.map((line, index) => parseLine(line, `${path}, line ${index + 1}`));
  const [first] = all;
  if (first === undefined) throw invalid(path, "no trajectory in it");
  const other = all.find(({ model, tokenizer_hash: hash }) => model !== first.model || hash !== first.tokenizer_hash);
  if (other !== undefined) throw invalid(path, `trajectories of ${first.model} and ${other.model}, or two tokenizers`);
  const turns = new Map<string, RecordedTurn[]>();
  let counted = 0;
  for (const trajectory of all) counted += addTurns(turns, trajectory);
  return {
    model: first.model,
    tokenizerHash: first.tokenizer_hash,
    templateHash: first.template_hash,
    logprobsMode: first.logprobs_mode ?? "raw",
    hash: createHash("sha256").update(text).digest("hex"),
    trajectories: all.length,
    turns: counted,
    contextTokens: all
      .flatMap(({ branches }) => branches)
      .reduce((max, { token_ids: ids }) => Math.max(max, ids.length), 1),
    turnsOf: (prompt) => turns.get(keyOf(prompt)) ?? [],
  };
}

/** What is wrong is told without a word of the file: whoever registers a backend may not be meant to read it. */
function parseLine(line: string, what: string): Trajectory {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw invalid(what, "no JSON");
  }
  const parsed = Line.safeParse(value);
  if (!parsed.success) throw invalid(what, "no trajectory in the native format");
  return parsed.data;
}

/** Each turn once: a branch that was forked off may hold those of its parent. Gives how many there were. */
function addTurns(turns: Map<string, RecordedTurn[]>, { branches }: Trajectory): number {
  const seen = new Set<number>();
  for (const branch of branches) {
    const ids = Int32Array.from(branch.token_ids);
    for (const { index, start, end, finish_reason, stop_reason, generation_ms } of branch.turns) {
      if (seen.has(index)) continue;
      seen.add(index);
      const key = keyOf(ids.subarray(0, start));
      const turn: RecordedTurn = {
        ids: ids.slice(start, end),
        logprobs: Float32Array.from(branch.logprobs.slice(start, end)),
        versions: clip(branch.versions, start, end),
        finishReason: finish_reason,
        stopReason: stop_reason,
        generationMs: generation_ms ?? 0,
      };
      turns.set(key, [...(turns.get(key) ?? []), turn]);
    }
  }
  return seen.size;
}

function clip(spans: readonly { version: string; start: number; end: number }[], start: number, end: number) {
  return spans
    .map((span) => ({ ...span, start: Math.max(span.start, start) - start, end: Math.min(span.end, end) - start }))
    .filter((span) => span.start < span.end)
    .map(({ version, start: from, end: to }) => ({ version, start: from, end: to }));
}

function keyOf(ids: Int32Array): string {
  return Bun.SHA256.hash(ids.slice(), "hex");
}
