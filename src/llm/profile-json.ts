import { z } from "zod";
import type { BackendProfile } from "./engine.ts";

const Profile = z.strictObject({
  kind: z.enum(["vllm", "llamacpp", "scripted"]),
  version: z.string().nullable(),
  model: z.string(),
  contextTokensMax: z.int().min(1).describe("tokens"),
  slots: z.int().min(1).nullable(),
  kvTokens: z.int().min(1).nullable(),
  logprobsMode: z.enum(["raw", "processed"]),
  renderer: z.enum(["local", "remote"]),
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
