import { mkdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { type Clock, systemClock } from "./clock.ts";
import { downloadEnvironment, type ServerConfig } from "./config.ts";
import { ConfigError } from "./config-file.ts";
import { RequestError, RolloutError } from "./errors.ts";
import { createApp } from "./http/app.ts";
import { type AuthConfig, parseTokens } from "./http/guard.ts";
import { type HttpServer, ListenError, startHttp } from "./http/serve.ts";
import { type LimitsMax, parseLimitsMax } from "./job/limits.ts";
import { sweepOrphans } from "./launcher.ts";
import type { Backends } from "./llm/backends.ts";
import { createBackends } from "./llm/registry.ts";
import type { Log } from "./log.ts";
import { createMetrics, type Metrics } from "./metrics/metrics.ts";
import { BackgroundBuilds } from "./pipeline/image-builds.ts";
import { LiveJobs } from "./pipeline/live-job.ts";
import { Pipeline } from "./pipeline/pipeline.ts";
import type { PipelineObserver } from "./pipeline/stage-parts.ts";
import { LIMIT_NAMES } from "./pipeline/submit.ts";
import { openCgroups } from "./sandbox/cgroup.ts";
import { requireBwrap } from "./sandbox/choose-bwrap.ts";
import { describeLack } from "./sandbox/enforcement.ts";
import { createSandboxHost } from "./sandbox/host.ts";
import { type Images, openImages } from "./sandbox/images/open-images.ts";
import { findPrograms } from "./sandbox/machine.ts";
import { type Cidr, parseCidr, resolveHost } from "./sandbox/network/addresses.ts";
import { probeConfinement } from "./sandbox/probe.ts";
import type { SandboxHost } from "./sandbox/sandbox.ts";
import { SnapshotStore } from "./sandbox/snapshot-store.ts";
import { StartError } from "./start-error.ts";
import { createStore } from "./store/client.ts";
import type { Store } from "./store/store.ts";
import { Supervisor } from "./supervisor.ts";
import { createRegistry } from "./tasks/registry.ts";
import { VERSION } from "./version.ts";

export interface RunningServer {
  readonly url: string;
  /** Resolves with the cause when the server can no longer work and must be started again. */
  readonly died: Promise<Error>;
  /** Drains: no new work, `drainMs` for what is in hand, then everything is closed. Resolves when nothing runs. */
  stop(): Promise<void>;
}

/**
 * Builds a server from its parts: this is the only place that picks adapters. Opens in the order in which the parts need
 * each other and closes in reverse; a part that fails to open closes those before it. It answers as soon as it can, and
 * works on jobs once sandboxes were seen to confine and the given backends were asked. Throws StartError.
 */
export async function startServer(config: ServerConfig, log: Log): Promise<RunningServer> {
  const clock = systemClock;
  await using opened = new AsyncDisposableStack();
  const auth = readAuth(config);
  const limitsMax = readLimitsMax(config);
  const metrics = opened.use(createMetrics());
  const store = opened.use(await openStore(config, clock));
  const images = openServerImages(config, clock);
  const problem = images.problem();
  if (problem !== null) throw new StartError(`--images: ${problem}`);
  const swept = await images.store.sweep();
  if (swept > 0) log.info("server:images_swept", { folders: swept });
  const sandboxes = await createSandboxes(config, { images, log, clock });
  opened.defer(() => sandboxes.close());
  sandboxes.removeAllSnapshots();
  const lack = describeLack(sandboxes.enforcement);
  if (lack !== null) log.warn("sandbox:limits_not_enforced", lack);
  const imageBuilds = opened.use(
    new BackgroundBuilds({ images, drain: (imageId) => sandboxes.drain(imageId), log, clock }),
  );
  const backends = opened.use(await openBackends(config, { store, log, clock }));
  const supervisor = new Supervisor(log);
  const recovered = await store.recover();
  log.info("server:recovered", recovered);

  const registry = createRegistry(clock);
  const observer = observe(metrics);
  const parts = { store, sandboxes, backends, registry, live: new LiveJobs(), clock, log, observer, supervisor };
  const pipeline = new Pipeline(parts, { ...config, limitsMax, evalReserve: 2 * config.evalWorkers });
  let isStarting = true;
  const closing = new AbortController();
  const { app, drain } = createApp({
    store,
    rollouts: pipeline,
    backends,
    imageBuilds,
    metrics,
    auth,
    clock,
    log,
    version: VERSION,
    startedAtMs: clock.nowMs(),
    ready: () => (isStarting ? "the server is starting" : notReady(backends, closing.signal)),
    closing: closing.signal,
  });
  const http = listen(app, config, clock);
  opened.defer(() => http.stop(0));
  await checkConfinement(sandboxes);
  await addBackends(config, backends);
  pipeline.start();
  isStarting = false;
  const rest = opened.move();
  return {
    url: http.url,
    died: store.died,
    async stop() {
      closing.abort();
      await Promise.all([drain(), http.stop(config.drainMs), pipeline.drain(config.drainMs)]);
      await supervisor.drain();
      await rest.disposeAsync();
    },
  };
}

async function openStore(config: ServerConfig, clock: Clock): Promise<Store> {
  const folder = resolve(config.dataDir);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return await createStore({ file: join(folder, "rolloutd.db"), clock });
  } catch (cause) {
    const why = cause instanceof RolloutError ? cause.detail : cause instanceof Error ? cause.message : String(cause);
    throw new StartError(`${config.origins.data} ${folder}: ${why}`, { cause });
  }
}

/** Throws StartError with what does not hold: without confinement, or programs that graders need, nothing is run. */
export async function checkConfinement(host: SandboxHost): Promise<void> {
  const findings = [findPrograms(), ...(await probeConfinement(host, "host"))];
  const broken = findings.filter((finding) => finding.state === "broken");
  if (broken.length === 0) return;
  const lines = broken.map(({ check, detail, fix }) => `  ${check}: ${detail}${fix === null ? "" : `\n    ${fix}`}`);
  throw new StartError(
    ["sandboxes do not confine on this machine or lack a program, see `rolloutd doctor`:", ...lines].join("\n"),
  );
}

/** The sandbox host that `serve`, `doctor` and `task check` use; nothing is started yet. Throws StartError. */
export async function createSandboxes(
  config: Pick<
    ServerConfig,
    "bwrapPath" | "cacheDirs" | "dataDir" | "networkPrivate" | "origins" | "sandboxUid" | "sandboxesMax" | "warmMax"
  >,
  { images, log, clock }: { images: Images; log: Log; clock: Clock },
): Promise<SandboxHost> {
  const bwrap = await requireBwrap(config);
  const sandboxUid = process.getuid?.() === 0 ? config.sandboxUid : null;
  return createSandboxHost({
    groups: await openCgroups({ sandboxUid, clock, log }),
    snapshots: new SnapshotStore({ folder: join(resolve(config.dataDir), "snapshots"), sandboxUid, clock }),
    bwrapPath: bwrap.path,
    sandboxUid: config.sandboxUid,
    network: { admitted: readCidrs(config), resolve: resolveHost },
    images: images.catalog,
    clock,
    log,
    sandboxesMax: config.sandboxesMax,
    warmMax: config.warmMax,
    sweepOrphans,
  });
}

function readCidrs({ networkPrivate, origins }: Pick<ServerConfig, "networkPrivate" | "origins">): Cidr[] {
  return networkPrivate.map((text) => {
    const cidr = parseCidr(text);
    if (cidr === null) {
      throw new ConfigError(
        `${origins.network_private} ${text}: is no network; accepted: CIDR notation, such as 10.1.0.0/16`,
      );
    }
    return cidr;
  });
}

/** The images that `serve`, `image` and `task check` share. Nothing is made on disk until one is built. */
export function openServerImages(config: ServerConfig, clock: Clock): Images {
  return openImages({
    ...config,
    bytesMax: config.imagesBytesMax,
    sandboxUid: process.getuid?.() === 0 ? config.sandboxUid : null,
    bwrapPath: async () => (await requireBwrap(config)).path,
    env: downloadEnvironment(),
    clock,
  });
}

async function openBackends(
  config: ServerConfig,
  { store, log, clock }: { store: Store; log: Log; clock: Clock },
): Promise<Backends> {
  const persistence = {
    load: () => store.backends(),
    save: store.putBackend.bind(store),
    remove: async (id: string) => void (await store.deleteBackend(id)),
  };
  const { backendWaitMs, turnMs } = config;
  return createBackends({ clock, log, backendWaitMs, turnMs, persistence });
}

/** Registers the backends of the command line. One that cannot be reached is registered all the same, as unhealthy. */
async function addBackends(
  { backends: urls, model, tokenizer, origins }: ServerConfig,
  backends: Backends,
): Promise<void> {
  for (const url of urls) {
    const spec = {
      url,
      model,
      role: "policy",
      kind: "auto",
      apiKey: null,
      weight: 1,
      policyVersion: null,
      tokenizer,
    } as const;
    try {
      await backends.add(spec, { probe: true });
    } catch (cause) {
      const why = cause instanceof RequestError ? cause.detail : cause instanceof Error ? cause.message : String(cause);
      throw new StartError(`${origins.backend}: ${why}`, { cause });
    }
  }
}

function listen(app: Parameters<typeof startHttp>[0], config: ServerConfig, clock: Clock): HttpServer {
  try {
    return startHttp(app, { host: config.host, port: config.port }, clock);
  } catch (cause) {
    throw cause instanceof ListenError ? new StartError(cause.message, { cause }) : cause;
  }
}

function readLimitsMax({ limitsMax, origins }: ServerConfig): LimitsMax {
  const unknown = Object.keys(limitsMax).find((name) => !LIMIT_NAMES.includes(name));
  if (unknown !== undefined) {
    throw new ConfigError(`${origins.limits_max}: ${unknown} is no limit; accepted: ${LIMIT_NAMES.join(", ")}`);
  }
  try {
    return parseLimitsMax(limitsMax);
  } catch (cause) {
    throw new ConfigError(`${origins.limits_max}: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    });
  }
}

function readAuth({ host, allowedHosts, tokenFile, origins }: ServerConfig): AuthConfig {
  if (tokenFile === null) return { boundHost: host, allowedHosts, tokens: null };
  try {
    return { boundHost: host, allowedHosts, tokens: parseTokens(readFileSync(tokenFile, "utf8")) };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new ConfigError(`${origins.token_file} ${tokenFile}: ${why}`, { cause });
  }
}

function notReady(backends: Backends, closing: AbortSignal): string | null {
  if (closing.aborted) return "the server is stopping";
  return backends.list().some((backend) => backend.state === "healthy") ? null : "no backend is healthy";
}

function observe(metrics: Metrics): PipelineObserver {
  return {
    stageEnded: (stage, ms) => metrics.stageEnded(stage, ms),
    attemptFailed: (stage, reason) => metrics.attemptFailed({ stage, reason }),
    turnEnded: (turn) => metrics.turnEnded(turn),
    toolEnded: (call) => metrics.toolEnded(call),
    jobFinished: (job) => {
      if (job.outcome) metrics.jobFinished({ handler: job.handler, endReason: job.outcome.endReason });
    },
  };
}
