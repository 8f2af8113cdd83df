import { CommanderError } from "commander";
import { systemClock } from "../clock.ts";
import { readConfig } from "../config.ts";
import { ConfigError } from "../config-file.ts";
import { RolloutError } from "../errors.ts";
import { outerPid } from "../launcher.ts";
import { createLog, silentLog } from "../log.ts";
import { bwrapsSeen, chooseBwrap } from "../sandbox/choose-bwrap.ts";
import { recipeNames } from "../sandbox/images/recipes.ts";
import { checkConfinement, createSandboxes, openServerImages, startServer } from "../server.ts";
import { StartError } from "../start-error.ts";
import { createRegistry } from "../tasks/registry.ts";
import { VERSION } from "../version.ts";
import { CliError } from "./api-client.ts";
import { runDoctor } from "./doctor.ts";
import { createProgram, type LocalCommands, withoutVainHelp } from "./program.ts";
import { checkTasks } from "./task-check.ts";
import { openTryFolder } from "./try-folder.ts";

/** Runs the command that the arguments name, and gives its exit code. What goes wrong is said on stderr. */
export async function runCommandLine(): Promise<number> {
  let exitCode = 0;
  try {
    const program = createProgram(local, (code) => {
      exitCode = code;
    });
    await program.parseAsync(withoutVainHelp(program, process.argv.slice(2)), { from: "user" });
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
  async serve({ flags, configFile }) {
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

  async doctor({ flags, configFile }, options) {
    const given = await readConfig(flags, configFile);
    using folder = openTryFolder(given.dataDir);
    const config = { ...given, dataDir: folder.path };
    const parts = { images: openServerImages(given, systemClock), log: silentLog, clock: systemClock };
    const { dataDir, sandboxUid, bwrapPath } = config;
    return await runDoctor(
      {
        ...parts,
        bwrap: () => chooseBwrap(config),
        seen: () => bwrapsSeen(config),
        named: bwrapPath,
        dataDir,
        dataDirGiven: given.dataDir,
        sandboxUid,
        host: () => createSandboxes(config, parts),
      },
      options,
    );
  },

  async images(flags) {
    return openServerImages(await readConfig(flags, null), systemClock);
  },

  async taskCheck(path, { flags, configFile }, options) {
    const config = await readConfig(flags, configFile);
    const images = openServerImages(config, systemClock);
    const sandboxes = await createSandboxes(config, { images, log: silentLog, clock: systemClock });
    const recipes = recipeNames(config.recipesDir);
    const parts = { sandboxes, registry: createRegistry(systemClock), recipes, clock: systemClock };
    try {
      return await checkTasks(parts, path, { ...options, beforeFirst: () => checkConfinement(sandboxes) });
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
