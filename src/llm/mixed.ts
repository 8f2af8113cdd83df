import type { Backend } from "./backend.ts";

/**
 * Who among `all` serves the model of `profile` with other weights than `backend`; null when nobody does. A new
 * backend must match all that are known; one that was known before only those that are healthy, or two servers that
 * were both restarted on other weights would keep each other out.
 */
export function mixedWith(
  backend: Backend,
  profile: { model: string; weightsIdentity: string },
  all: readonly Backend[],
): Backend | null {
  const isNew = backend.profile === null;
  const others = all.filter((other) => other !== backend && (isNew || other.healthy));
  const same = others.filter((other) => other.model === profile.model && other.spec.role === backend.spec.role);
  const differs = (other: Backend) =>
    (other.profile?.weightsIdentity ?? profile.weightsIdentity) !== profile.weightsIdentity;
  return same.find(differs) ?? null;
}

/** Why a backend at `url` is kept out beside `other`. */
export function mixedText(url: string, other: Backend): string {
  return `${url} serves ${other.model} with another engine or other weights than ${other.spec.url}`;
}
