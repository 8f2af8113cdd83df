import type { TurnRecord } from "./turn.ts";

/**
 * Oldest and newest policy version among the sampled tokens: by number where all versions are whole numbers, else by
 * order of use, since a name has no other order. Nulls when nothing was sampled.
 */
export function versionRange(turns: readonly Pick<TurnRecord, "versions">[]): {
  min: string | null;
  max: string | null;
} {
  const used = turns.flatMap((turn) => turn.versions.map((span) => span.version));
  if (used.every((version) => /^\d{1,15}$/.test(version))) used.sort((left, right) => Number(left) - Number(right));
  return { min: used[0] ?? null, max: used.at(-1) ?? null };
}
