import { CommanderError } from "commander";
import { systemClock } from "../clock.ts";
import { ConfigError, readConfig } from "../config.ts";
import { RolloutError } from "../errors.ts";
import { outerPid } from "../launcher.ts";
import { createLog, silentLog } from "../log.ts";
import { bwrapsSeen, chooseBwrap, createSandboxes, openServerImages, StartError, startServer } from "../server.ts";
import { createRegistry } from "../tasks/registry.ts";
import { VERSION } from "../version.ts";
import { CliError } from "./api-client.ts";
import { runDoctor } from "./doctor.ts";
import { createProgram, type LocalCommands } from "./program.ts";
import { checkTasks } from "./task-check.ts";

/** Runs the command that the arguments name, and gives its exit code. What goes wrong is said on stderr. */
export async function runCommandLine(): Promise<number> {
  let exitCode = 0;
  try {
    await createProgram(local, (code) => {
      exitCode = code;
    }).parseAsync(process.argv);
  } catch (error) {
    if (error instanceof CommanderError) exitCode = error.exitCode;
    else if (error instanceof RolloutError) {
      console.error(`rolloutd: ${error.detail}`);
      exitCode = 1;
    } else if (error instanceof CliError || error instanceof ConfigError || error instanceof StartError) {
      console.error(`rolloutd: ${error.message}`);
      exitCode = error instanceof CliError ? error.exitCode : 2;
    } else if (error instanceof Error && "syscall" in error && "code" in error) {
      // What the system refuses is no bug. A reader that went away (`| head`) has what it wanted.
      if (error.code !== "EPIPE") console.error(`rolloutd: ${error.message}`);
      exitCode = error.code === "EPIPE" ? 141 : 1;
    } else throw error;
  }
  return exitCode;
}

/** The commands that work on this machine rather than through a server. */
const local: LocalCommands = {
  async serve(flags, configFile) {
    const config = await readConfig(flags, configFile);
    const log = createLog(config.logLevel, (line) => process.stderr.write(line));
    const stopped = stopSignal();
    const server = await startServer(config, log);
    log.info("server:listening", { url: server.url, pid: outerPid(), version: VERSION, data: config.dataDir });
    const signal = await Promise.race([stopped, server.died]);
    if (signal instanceof Error) {
      // Whoever supervises us starts a new server, which goes on from what is on disk.
      log.error("server:store_died", { error: signal });
      return 1;
    }
    log.info("server:draining", { signal, drain_ms: config.drainMs });
    await server.stop();
    log.info("server:stopped");
    return 0;
  },

  async doctor(options) {
    const config = await readConfig({}, null);
    const parts = { images: openServerImages(config, systemClock), log: silentLog, clock: systemClock };
    const host = () => createSandboxes(config, parts);
    const { dataDir, sandboxUid } = config;
    const bwrap = () => chooseBwrap(config);
    return runDoctor({ ...parts, bwrap, seen: () => bwrapsSeen(config), dataDir, sandboxUid, host }, options);
  },

  async images(flags) {
    return openServerImages(await readConfig(flags, null), systemClock);
  },

  async taskCheck(path, options) {
    const config = await readConfig({}, null);
    const images = openServerImages(config, systemClock);
    const sandboxes = await createSandboxes(config, { images, log: silentLog, clock: systemClock });
    try {
      return await checkTasks({ sandboxes, registry: createRegistry(systemClock), clock: systemClock }, path, options);
    } finally {
      await sandboxes.close();
    }
  },
};

/** Resolves with the first signal that asks the server to end; from then on a second one, a second later, ends it at once. */
function stopSignal(): Promise<NodeJS.Signals> {
  const first = Promise.withResolvers<NodeJS.Signals>();
  let firstAtMs = 0;
  for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) {
    process.on(name, () => {
      const nowMs = systemClock.nowMs();
      if (firstAtMs === 0) firstAtMs = nowMs;
      // A signal to the whole process group arrives twice, once through the launcher.
      else if (nowMs - firstAtMs > 1_000) process.exit(130);
      first.resolve(name);
    });
  }
  return first.promise;
}
