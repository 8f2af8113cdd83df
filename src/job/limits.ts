import { z } from "zod";

/** Bounds of one job. Times count active time of their stage; queueing is not counted. */
export const JobLimits = z.strictObject({
  turnsMax: z.int().min(1).max(500).describe("model calls of RUN"),
  tokensMax: z.int().min(1).max(4_194_304).describe("sampled tokens of RUN"),
  initMs: z.int().min(100).max(3_600_000).describe("active time of INIT, ms"),
  runMs: z.int().min(100).max(86_400_000).describe("active time of RUN, ms"),
  evalMs: z.int().min(100).max(7_200_000).describe("active time of EVAL, ms"),
  toolMs: z.int().min(50).max(3_600_000).describe("one tool call, ms"),
  attemptsMax: z.int().min(1).max(10).describe("tries before an infrastructure failure is final"),
  memoryBytes: z
    .int()
    .min(16_777_216)
    .max(1_099_511_627_776)
    .describe("memory of the sandbox beside its disk, bytes; of each process alone where the server has no cgroups"),
  diskBytes: z.int().min(1_048_576).max(1_099_511_627_776).describe("writable layer of the sandbox, bytes"),
  inodesMax: z.int().min(1_000).max(100_000_000).describe("files and folders that the sandbox makes"),
  pidsMax: z.int().min(8).max(32_768).describe("processes and threads of the sandbox"),
  openFilesMax: z.int().min(128).max(1_048_576).describe("descriptors of one process"),
  fileBytes: z
    .int()
    .min(1_048_576)
    .max(1_099_511_627_776)
    .describe("one file that the sandbox writes, bytes; never more than its disk"),
  outputChars: z
    .int()
    .min(256)
    .max(262_144)
    .describe("characters of one command's output that the model is shown; the middle is cut out"),
  cpuMs: z.int().min(1_000).max(604_800_000).describe("processor time of one process, ms, rounded up to seconds"),
});
export type JobLimits = z.infer<typeof JobLimits>;

export const DEFAULT_LIMITS: JobLimits = {
  turnsMax: 30,
  tokensMax: 32_768,
  initMs: 120_000,
  runMs: 900_000,
  evalMs: 300_000,
  toolMs: 30_000,
  attemptsMax: 3,
  memoryBytes: 2_147_483_648,
  diskBytes: 1_073_741_824,
  inodesMax: 100_000,
  pidsMax: 256,
  openFilesMax: 4_096,
  fileBytes: 1_099_511_627_776,
  outputChars: 16_384,
  cpuMs: 3_600_000,
};

/** What a server allows at most, by limit; one that is absent has only the range of its schema. */
export const LimitsMax = JobLimits.partial();
export type LimitsMax = z.infer<typeof LimitsMax>;

/** Reads maxima by their wire names. Throws with the name that is none, or the range that a number is not in. */
export function parseLimitsMax(wire: Readonly<Record<string, number>>): LimitsMax {
  const named = Object.entries(wire).map(([key, value]) => {
    const limit = key.replace(/_([a-z])/g, (_match, letter: string) => letter.toUpperCase());
    if (!(limit in DEFAULT_LIMITS)) throw new Error(`${key} is no limit`);
    return [limit, value] as const;
  });
  const parsed = LimitsMax.safeParse(Object.fromEntries(named));
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new Error(`${String(issue?.path[0])}: ${issue?.message}`);
}

/** The defaults of a server: none is above its own maximum. */
export function defaultsWithin(max: LimitsMax): JobLimits {
  return JobLimits.parse(
    Object.fromEntries(
      Object.entries(DEFAULT_LIMITS).map(([key, value]) => [key, Math.min(value, maxOf(max, key) ?? value)]),
    ),
  );
}

/** The limits of a job that are above the server's maximum, each with that maximum. */
export function limitsAbove(limits: JobLimits, max: LimitsMax): { key: string; max: number }[] {
  return Object.entries(limits).flatMap(([key, value]) => {
    const bound = maxOf(max, key);
    return bound !== undefined && value > bound ? [{ key, max: bound }] : [];
  });
}

/** With defaults for what a job of an earlier version does not have. */
export function completeLimits(limits: JobLimits): JobLimits {
  return { ...DEFAULT_LIMITS, ...limits };
}

/** Those that a sandbox is started with; a longer file than the disk could only be a hole. Defaults for what a job of an earlier version does not have. */
export function sandboxLimitsOf(limits: JobLimits) {
  const { memoryBytes, diskBytes, inodesMax, pidsMax, openFilesMax, fileBytes, cpuMs } = completeLimits(limits);
  return { memoryBytes, diskBytes, inodesMax, pidsMax, openFilesMax, fileBytes: Math.min(fileBytes, diskBytes), cpuMs };
}

function maxOf(max: LimitsMax, key: string): number | undefined {
  return new Map(Object.entries(max)).get(key);
}
