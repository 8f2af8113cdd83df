import { z } from "zod";
import { type BackendProfile, ENGINE_KINDS } from "./engine.ts";

const Profile = z.strictObject({
  kind: z.enum(ENGINE_KINDS),
  version: z.string().nullable(),
  model: z.string(),
  contextTokensMax: z.int().min(1).describe("tokens"),
  slots: z.int().min(1).nullable(),
  kvTokens: z.int().min(1).nullable(),
  logprobsMode: z.enum(["raw", "processed"]),
  renderer: z.enum(["local", "remote"]),
  endpoint: z.string(),
  tokenExact: z.boolean(),
  tellsVersions: z.boolean(),
  abort: z.strictObject({ route: z.string(), id: z.string() }).nullable(),
  weights: z.strictObject({ route: z.string(), version: z.string() }).nullable(),
  streamInterval: z.boolean(),
  devMode: z.boolean().nullable(),
  notes: z.array(z.string()),
  weightsIdentity: z.string(),
}) satisfies z.ZodType<BackendProfile>;

/** A stored profile, from its JSON text. */
export const BackendProfileJson = z
  .string()
  .transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue("not JSON");
      return z.NEVER;
    }
  })
  .pipe(Profile);
