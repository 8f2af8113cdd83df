import { readFileSync } from "node:fs";
import { systemClock } from "../../src/clock.ts";
import { silentLog } from "../../src/log.ts";
import { openCgroups } from "../../src/sandbox/cgroup.ts";
import { descendantsOf, isRunning } from "../../src/sandbox/process-tree.ts";
import { TEST_SANDBOX_UID, testBwrap } from "./bwrap.ts";
import { eventually } from "./leaks.ts";

const ROOT = `${import.meta.dir}/../..`;
const START_MS_MAX = 20_000;

export interface ServerProcess extends AsyncDisposable {
  url: string;
  /** The pid that was started: the launcher's. */
  pid: number;
  /** All processes of the server now: launcher, namespace, init, server, sandboxes. */
  processes(): number[];
  /** The server proper, below its launcher. */
  serverPid(): number;
  log(): string;
  /** Sends a signal to `pid` (the launcher when left out) and resolves with the exit code when all of it is gone. */
  end(signal: NodeJS.Signals, pid?: number): Promise<number>;
}

/** Starts `rolloutd serve` as a user does, from source, on a free port. */
export async function startServerProcess(
  flags: readonly string[],
  env: Record<string, string> = {},
): Promise<ServerProcess> {
  const child = Bun.spawn([process.execPath, `${ROOT}/src/cli.ts`, "serve", "--port", "0", ...flags], {
    env: { ...process.env, ROLLOUTD_BWRAP: await testBwrap(), ...env },
    stdin: "ignore",
    stdout: "inherit",
    stderr: "pipe",
  });
  return followServer(child, process.execPath);
}

/** Waits until the `serve` that was started as `child` listens; `program` is what its processes run. */
export async function followServer(
  child: Bun.Subprocess<"ignore", "inherit", "pipe">,
  program: string,
): Promise<ServerProcess> {
  let log = "";
  const decoder = new TextDecoder();
  const drained = (async () => {
    for await (const chunk of child.stderr) log += decoder.decode(chunk, { stream: true });
  })();
  const url = () => /"event":"server:listening"[^\n]*?"url":"([^"]+)"/.exec(log)?.[1];
  await eventually(() => url() !== undefined || child.exitCode !== null, START_MS_MAX);
  const processes = () => [child.pid, ...descendantsOf(child.pid)].filter(isRunning);
  const server: ServerProcess = {
    url: url() ?? "",
    pid: child.pid,
    processes,
    serverPid: () =>
      processes().find((pid) => commandOf(pid).includes("--inside-namespace") && commandOf(pid).startsWith(program)) ??
      0,
    log: () => log,
    async end(signal, pid = child.pid) {
      const all = processes();
      process.kill(pid, signal);
      const code = await child.exited;
      await drained;
      const gone = await eventually(() => !all.some(isRunning));
      if (!gone) throw new Error(`still there after ${signal}: ${all.filter(isRunning).map(commandOf).join("; ")}`);
      return code;
    },
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) await server.end("SIGKILL");
      await sweepGroups();
    },
  };
  if (server.url === "") {
    child.kill("SIGKILL");
    throw new Error(`the server did not start (exit code ${await child.exited}):\n${log}`);
  }
  return server;
}

/** What the next server does first: removes the cgroups of those that were killed. */
async function sweepGroups(): Promise<void> {
  const groups = await openCgroups({ sandboxUid: TEST_SANDBOX_UID, clock: systemClock, log: silentLog });
  await groups?.[Symbol.asyncDispose]();
}

export function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
