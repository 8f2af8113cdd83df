import { Backend } from "./backend.ts";
import { ENGINE_KINDS } from "./engine.ts";
import { BackendProfileJson } from "./profile-json.ts";

/** A backend as a store keeps it; null texts are empty. */
export interface StoredBackendLike {
  id: string;
  url: string;
  /** Empty where the server's own name is taken. */
  model: string;
  role: "policy" | "judge";
  kind: string;
  apiKey: string | null;
  weight: number;
  policyVersion: string;
  tokenizer: string | null;
  draining: boolean;
  profileJson: string | null;
  createdAtMs: number;
}

/** Where registered backends outlive the server. */
export interface BackendPersistence {
  load(): Promise<readonly StoredBackendLike[]>;
  save(backend: StoredBackendLike): Promise<void>;
  remove(id: string): Promise<void>;
}

/** Keeps nothing. */
export const noPersistence: BackendPersistence = {
  load: async () => [],
  save: async () => {},
  remove: async () => {},
};

export function toStored(backend: Backend): StoredBackendLike {
  const { url, model, role, kind, apiKey, weight, tokenizer } = backend.spec;
  return {
    id: backend.id,
    url,
    model: model ?? "",
    role,
    kind,
    apiKey,
    weight,
    policyVersion: backend.policyVersion,
    tokenizer,
    draining: backend.draining,
    profileJson: backend.profile === null ? null : JSON.stringify(backend.profile),
    createdAtMs: backend.createdAtMs,
  };
}

/** A row from an earlier life. A profile that is not understood any more is dropped: the next probe makes it anew. */
export function fromStored(row: StoredBackendLike): Backend {
  return new Backend({
    id: row.id,
    createdAtMs: row.createdAtMs,
    draining: row.draining,
    profile: row.profileJson === null ? null : (BackendProfileJson.safeParse(row.profileJson).data ?? null),
    spec: {
      url: row.url,
      model: row.model === "" ? null : row.model,
      role: row.role,
      kind: ENGINE_KINDS.find((kind) => kind === row.kind) ?? "auto",
      apiKey: row.apiKey,
      weight: row.weight,
      policyVersion: row.policyVersion,
      tokenizer: row.tokenizer,
    },
  });
}
