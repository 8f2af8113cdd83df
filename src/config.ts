import { z } from "zod";
import { ConfigError, readConfigFile } from "./config-file.ts";
import { LOG_LEVELS } from "./log.ts";

/**
 * Everything a server can be told, from flags, `ROLLOUTD_*` environment and a TOML file, in that order of precedence.
 * Keys are written `snake_case` in the file, `--kebab-case` as flags and `ROLLOUTD_UPPER_CASE` in the environment.
 * This is the only file of `src/` besides the launcher that reads the environment.
 */
const port = z.coerce.number().int().min(0).max(65_535);
const count = (max: number) => z.coerce.number().int().min(1).max(max);
const milliseconds = (max: number) => z.coerce.number().int().min(0).max(max);
const list = z.preprocess(
  (value) => (typeof value === "string" ? value.split(",").map((part) => part.trim()) : value),
  z.array(z.string().min(1)).max(256),
);

/** `a=1,b=2` as the object that a TOML table is. */
function pairs(value: unknown): unknown {
  if (typeof value !== "string") return value;
  return Object.fromEntries(
    value.split(",").map((pair) => {
      const [key = "", number = ""] = pair.split("=").map((part) => part.trim());
      return [key, /^\d+$/.test(number) ? Number(number) : number];
    }),
  );
}

const WHOLE = "accepted: a whole number of at least 1, sizes in bytes, times in ms";

export const SERVER_OPTIONS = {
  host: z
    .string()
    .min(1)
    .default("127.0.0.1")
    .describe("address to listen on; anything but loopback needs --token-file"),
  port: port.default(8006).describe("port to listen on; 0 takes a free one"),
  data: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("folder for the database; default ./rolloutd-data, for root /var/lib/rolloutd"),
  backend: list
    .default([])
    .describe("URL of an LLM server, http://host:port or unix:/path; may be given several times"),
  model: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("model name that the backends given here serve; default: the one they name"),
  tokenizer: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("folder with the model's tokenizer.json and chat template; default: the backend renders"),
  token_file: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("file with bearer tokens, one a line; required unless --host is loopback"),
  allowed_host: list.default([]).describe("further Host header values to accept; may be given several times"),
  init_workers: count(1_024).default(4).describe("jobs in INIT at once"),
  run_workers: count(16_384).default(64).describe("jobs in RUN at once"),
  eval_workers: count(1_024).default(4).describe("jobs in EVAL at once"),
  ready_max: count(1_024).default(8).describe("prepared sandboxes that may wait for RUN"),
  sandboxes_max: count(65_536)
    .default(96)
    .describe("sandboxes at once, graders included; two for each EVAL worker are reserved"),
  warm_max: z.coerce
    .number()
    .int()
    .min(0)
    .max(65_536)
    .default(4)
    .describe("sandboxes kept started for the next jobs, as demand wants; 0 keeps none"),
  sandbox_uid: z.coerce
    .number()
    .int()
    .min(1)
    .max(4_294_967_294)
    .default(61_234)
    .describe("kernel uid of sandboxes when root starts the server"),
  limits_max: z
    .preprocess(pairs, z.record(z.string(), z.int(WHOLE).min(1, WHOLE)))
    .default({})
    .describe("maxima of jobs' limits, NAME=NUMBER,...; in the file a table, [limits_max]"),
  network_private: list
    .default([])
    .describe("networks in CIDR notation that sandboxes may reach although they are not public, such as 10.1.0.0/16"),
  images: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("folder for images of sandboxes; default: images in the data folder"),
  images_bytes_max: z.coerce
    .number()
    .int()
    .min(0)
    .max(Number.MAX_SAFE_INTEGER)
    .default(50 * 1024 ** 3)
    .describe("bytes that images may take together; those not used for longest go first"),
  recipes: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("folder with image recipes of your own, NAME/recipe.toml"),
  bwrap: z
    .string()
    .min(1)
    .nullable()
    .default(null)
    .describe("path of bubblewrap; default: the newest of PATH and the cache"),
  backend_wait_ms: milliseconds(86_400_000)
    .default(60_000)
    .describe("how long a job waits for a healthy backend once one was there"),
  turn_ms: milliseconds(86_400_000)
    .default(600_000)
    .describe("longest time of one model call before its backend counts as hung, ms"),
  drain_ms: milliseconds(86_400_000)
    .default(10_000)
    .describe("how long SIGTERM lets work in hand go on before it is queued again"),
  log_level: z.enum(LOG_LEVELS).default("info").describe("least severe log lines to write, to stderr"),
} as const;

const ServerConfigWire = z.strictObject(SERVER_OPTIONS);
type Wire = z.infer<typeof ServerConfigWire>;
export type OptionKey = keyof Wire;

type Origins = Readonly<Record<string, string>>;

export interface ServerConfig {
  readonly host: string;
  readonly port: number;
  readonly dataDir: string;
  readonly backends: readonly string[];
  readonly model: string | null;
  readonly tokenizer: string | null;
  readonly tokenFile: string | null;
  readonly allowedHosts: readonly string[];
  readonly initWorkers: number;
  readonly runWorkers: number;
  readonly evalWorkers: number;
  readonly readyMax: number;
  readonly sandboxesMax: number;
  readonly warmMax: number;
  readonly sandboxUid: number;
  /** By wire name, not yet checked against the limits that there are. */
  readonly limitsMax: Readonly<Record<string, number>>;
  readonly networkPrivate: readonly string[];
  readonly imagesDir: string;
  readonly imagesBytesMax: number;
  readonly recipesDir: string | null;
  readonly bwrapPath: string | null;
  readonly cacheDirs: readonly string[];
  readonly backendWaitMs: number;
  readonly turnMs: number;
  readonly drainMs: number;
  readonly logLevel: Wire["log_level"];
  /** Where each setting was given, for messages: `--data`, `ROLLOUTD_DATA` or `data in FILE`; its flag when nowhere. */
  readonly origins: Origins;
}

/** Resolves flags over environment over file over defaults, once, into a frozen object. Throws ConfigError. */
export async function readConfig(flags: Readonly<Record<string, unknown>>, file: string | null): Promise<ServerConfig> {
  const fromFile = file === null ? {} : await readConfigFile(file);
  const unknown = Object.keys(fromFile).find((key) => !(key in SERVER_OPTIONS));
  if (unknown !== undefined) {
    throw new ConfigError(
      `${unknown} in ${file} is not a setting; known are ${Object.keys(SERVER_OPTIONS).join(", ")}`,
    );
  }
  const merged: Record<string, unknown> = {};
  const origins: Record<string, string> = {};
  for (const key of Object.keys(SERVER_OPTIONS)) {
    const variable = `ROLLOUTD_${key.toUpperCase()}`;
    const sources = [
      [flags[key], flagName(key)],
      [process.env[variable], variable],
      [fromFile[key], `${key} in ${file}`],
    ] as const;
    const found = sources.find(([value]) => value !== undefined && value !== "");
    origins[key] = flagName(key);
    if (found) [merged[key], origins[key]] = found;
  }
  const parsed = ServerConfigWire.safeParse(merged);
  if (parsed.success) return freeze(parsed.data, Object.freeze(origins));
  throw new ConfigError(describeIssue(parsed.error.issues, merged, origins));
}

/** The first of `issues`: where the setting was given, the part of it that is wrong, and what stands there. */
function describeIssue(issues: readonly z.core.$ZodIssue[], merged: Record<string, unknown>, origins: Origins): string {
  const [issue] = issues;
  const [key = "", ...inner] = (issue?.path ?? []).map(String);
  const part = inner.length === 0 ? "" : `${inner.join(".")}: `;
  return `${origins[key] ?? key}: ${part}${issue?.message} (got ${JSON.stringify(merged[key])})`;
}

/** `--token-file` for `token_file`. */
export function flagName(key: string): string {
  return `--${key.replaceAll("_", "-")}`;
}

/**
 * Where set-up keeps what it built, best first: `ROLLOUTD_CACHE` alone when it is given, else the user's own cache and
 * root's, since what root built serves every user of the machine.
 */
export function cacheDirs(): readonly string[] {
  const { ROLLOUTD_CACHE, XDG_CACHE_HOME, HOME } = process.env;
  if (ROLLOUTD_CACHE) return [ROLLOUTD_CACHE];
  if (process.getuid?.() === 0) return [SYSTEM_CACHE];
  return [`${XDG_CACHE_HOME || `${HOME ?? "."}/.cache`}/rolloutd`, SYSTEM_CACHE];
}

const SYSTEM_CACHE = "/var/cache/rolloutd";

/** Server that client commands talk to and its bearer token: `ROLLOUTD_URL`, `ROLLOUTD_TOKEN`. */
export function clientEnvironment(): { url: string; token: string | null } {
  return { url: process.env.ROLLOUTD_URL || "http://127.0.0.1:8006", token: process.env.ROLLOUTD_TOKEN || null };
}

const PROXIES = ["http_proxy", "https_proxy", "no_proxy", "all_proxy"];

/** What programs that download for an image need to know of this machine: proxies, settings of pip. */
export function downloadEnvironment(): Readonly<Record<string, string>> {
  const isWanted = (name: string) => PROXIES.includes(name.toLowerCase()) || /^PIP_[A-Z_]+$/.test(name);
  const entries = Object.entries(process.env).filter(([name, value]) => isWanted(name) && value !== undefined);
  return Object.fromEntries(entries) as Record<string, string>;
}

/** Folders that programs are looked for in. */
export function searchPath(): readonly string[] {
  return (process.env.PATH ?? "/usr/bin:/bin").split(":").filter((folder) => folder.startsWith("/"));
}

function freeze(wire: Wire, origins: Origins): ServerConfig {
  if (!isLoopback(wire.host) && wire.token_file === null) {
    throw new ConfigError(
      `${origins.host} ${wire.host} is reachable by others and needs --token-file: the server runs code for whoever can reach it`,
    );
  }
  const evalReserve = 2 * wire.eval_workers;
  if (wire.sandboxes_max <= evalReserve) {
    throw new ConfigError(
      `${origins.sandboxes_max} ${wire.sandboxes_max} leaves none for agents: ${evalReserve} are reserved for ${origins.eval_workers} ${wire.eval_workers}`,
    );
  }
  const dataDir = wire.data ?? (process.getuid?.() === 0 ? "/var/lib/rolloutd" : "./rolloutd-data");
  return Object.freeze({
    host: wire.host,
    port: wire.port,
    dataDir,
    backends: Object.freeze(wire.backend.map((url) => url.replace(/\/+$/, ""))),
    model: wire.model,
    tokenizer: wire.tokenizer,
    tokenFile: wire.token_file,
    allowedHosts: Object.freeze(wire.allowed_host),
    initWorkers: wire.init_workers,
    runWorkers: wire.run_workers,
    evalWorkers: wire.eval_workers,
    readyMax: wire.ready_max,
    sandboxesMax: wire.sandboxes_max,
    warmMax: wire.warm_max,
    sandboxUid: wire.sandbox_uid,
    limitsMax: Object.freeze(wire.limits_max),
    networkPrivate: wire.network_private,
    imagesDir: wire.images ?? `${dataDir}/images`,
    imagesBytesMax: wire.images_bytes_max,
    recipesDir: wire.recipes,
    bwrapPath: wire.bwrap,
    cacheDirs: cacheDirs(),
    backendWaitMs: wire.backend_wait_ms,
    turnMs: wire.turn_ms,
    drainMs: wire.drain_ms,
    logLevel: wire.log_level,
    origins,
  });
}

/** 127.0.0.0/8, ::1 and the name localhost. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
