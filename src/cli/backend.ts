import { z } from "zod";
import type { ApiClient } from "./api-client.ts";
import { backendWords } from "./backend-words.ts";
import { formatTable } from "./table.ts";
import { WireBackend } from "./wire.ts";

const BackendList = z.object({ backends: z.array(WireBackend) });

/** The commands below `rolloutd backend`; each prints what the server answered. */
export const backendCommands = {
  async add(
    client: ApiClient,
    url: string,
    options: {
      model?: string;
      tokenizer?: string;
      role?: string;
      kind?: string;
      policyVersion?: string;
      apiKey?: string;
    },
  ) {
    const body = {
      url,
      model: options.model ?? null,
      role: options.role ?? "policy",
      kind: options.kind ?? "auto",
      tokenizer: options.tokenizer ?? null,
      policy_version: options.policyVersion ?? null,
      api_key: options.apiKey ?? null,
    };
    console.log(describe(await client.post("/v1/backends", WireBackend, body)));
  },
  async ls(client: ApiClient) {
    const { backends } = await client.get("/v1/backends", BackendList);
    const rows = backends.map((backend) => [
      backend.id,
      backend.state,
      backend.model ?? "-",
      backend.url,
      backend.policy_version,
    ]);
    console.log(formatTable([["id", "state", "model", "url", "policy"], ...rows]));
  },
  async show(client: ApiClient, id: string) {
    console.log(describe(await client.get(`/v1/backends/${encodeURIComponent(id)}`, WireBackend)));
  },
  async probe(client: ApiClient, id: string) {
    console.log(describe(await client.post(`/v1/backends/${encodeURIComponent(id)}/probe`, WireBackend)));
  },
  async drain(client: ApiClient, id: string) {
    console.log(describe(await client.post(`/v1/backends/${encodeURIComponent(id)}/drain`, WireBackend)));
  },
  async rm(client: ApiClient, id: string, options: { force?: boolean }) {
    await client.delete(`/v1/backends/${encodeURIComponent(id)}${options.force ? "?force=true" : ""}`);
    console.log(`${id} is removed`);
  },
} as const;

function describe(backend: WireBackend): string {
  return formatTable(backendWords(backend));
}
