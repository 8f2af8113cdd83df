import { join } from "node:path";
import { z } from "zod";
import { IMAGE_LIMITS } from "../../limits.ts";
import { DEFAULT_PATH } from "./build-context.ts";
import { ImageError } from "./image-error.ts";
import { readSmallFile } from "./manifest.ts";

/** What a sandbox takes over from the configuration of an OCI image. */
export interface OciConfig {
  env: Record<string, string>;
  path: string;
  uid: number;
  cwd: string | null;
}

const digest = z.string().regex(/^sha256:[0-9a-f]{64}$/);
const Index = z.looseObject({ manifests: z.array(z.looseObject({ digest })).min(1) });
const OciManifest = z.looseObject({ config: z.looseObject({ digest }) });
const Config = z.looseObject({
  architecture: z.string(),
  os: z.string(),
  config: z
    .looseObject({
      Env: z.array(z.string()).nullish(),
      WorkingDir: z.string().nullish(),
      User: z.string().nullish(),
    })
    .nullish(),
});

const ARCHITECTURE = { x64: "amd64", arm64: "arm64" } as const;
const AGENT_UID = 1_000;
const VARIABLE = /^([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)$/;

/** Reads the only image of an OCI layout. Throws ImageError input when it is broken or for another machine. */
export function readOciConfig(layout: string): OciConfig {
  const blob = (name: string) => join(layout, "blobs/sha256", name.slice("sha256:".length));
  const index = read(join(layout, "index.json"), Index);
  const manifest = read(blob(index.manifests[0]?.digest ?? ""), OciManifest);
  const { architecture, os, config } = read(blob(manifest.config.digest), Config);
  const own = ARCHITECTURE[process.arch === "arm64" ? "arm64" : "x64"];
  if (os !== "linux" || architecture !== own) {
    throw new ImageError("input", `the image is for ${os}/${architecture}; this machine is linux/${own}`);
  }
  return toSettings({ env: config?.Env ?? [], cwd: config?.WorkingDir ?? "", user: config?.User ?? "" });
}

/** `user` other than root becomes 1000: the namespace has one uid, and programs behave as for an ordinary user. */
export function toSettings(config: { env: readonly string[]; cwd: string; user: string }): OciConfig {
  const variables = config.env.flatMap((entry) => {
    const [, name, value] = VARIABLE.exec(entry) ?? [];
    return name === undefined || value === undefined ? [] : [[name, value] as const];
  });
  const { PATH: path, ...env } = Object.fromEntries(variables);
  const [user = ""] = config.user.split(":");
  const isPlain = config.cwd.startsWith("/") && !config.cwd.split("/").includes("..") && !config.cwd.includes("\0");
  return {
    env,
    path: path || DEFAULT_PATH,
    uid: ["", "0", "root"].includes(user) ? 0 : AGENT_UID,
    cwd: isPlain && config.cwd !== "/" ? config.cwd : null,
  };
}

function read<Schema extends z.ZodType>(file: string, schema: Schema): z.output<Schema> {
  const text = readSmallFile(file, IMAGE_LIMITS.ociJsonBytesMax);
  try {
    if (text === null) throw new Error("is no readable file");
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new ImageError("input", `the image's configuration cannot be read: ${String(cause)}`, { cause });
  }
}
