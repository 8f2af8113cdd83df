import { closeSync } from "node:fs";
import { type Clock, deadline } from "../../clock.ts";
import { openPipe } from "../../libc.ts";
import { IMAGE_LIMITS } from "../../limits.ts";
import { PipeReader } from "../pipe-reader.ts";
import { type StartedProcess, startProcess, unnamedFileOf } from "../process.ts";
import { descendantsOf, signalProcess, stateOf } from "../process-tree.ts";
import { pretendingFilter } from "../seccomp.ts";
import { type Confinement, confinedArgv } from "./confine.ts";
import { ImageError } from "./image-error.ts";
import { OutputTail } from "./output-tail.ts";

/** What every program of a build on this machine has in common. */
export interface BuildHost {
  bwrapPath: string;
  /** The uid that builds, which owns what it makes; null for an ordinary user's server. */
  sandboxUid: number | null;
  clock: Clock;
  /** Of this machine, for downloads: proxies, settings of pip. */
  env: Readonly<Record<string, string>>;
}

export interface BuildStep {
  argv: readonly string[];
  view: readonly string[];
  env: Readonly<Record<string, string>>;
  mounts?: boolean;
  network?: boolean;
  /** Hears each line of output; must not throw. */
  onLine?: (line: string) => void;
}

const FILTER_FD = 3;
const NEVER = new AbortController().signal;

/**
 * Runs one program of a build to its end, in namespaces of its own. Throws ImageError failed with the end of its output, or
 * the reason of `signal`; in every case nothing of it runs any more.
 */
export async function runBuildStep(host: BuildHost, step: BuildStep, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const what = step.argv.slice(0, 3).join(" ");
  const late = new ImageError("failed", `${what} took longer than ${IMAGE_LIMITS.stepMs / 60_000} minutes`);
  const limit = deadline(host.clock, IMAGE_LIMITS.stepMs, signal, late);
  const { process, output } = start(host, step);
  let killing: Promise<void> = Promise.resolve();
  const done = new AbortController();
  const kill = () => {
    killing = killTree(process, host.clock);
    // What could not be killed keeps the pipe: it is not waited for without end.
    const late = host.clock.sleep(IMAGE_LIMITS.killMs, done.signal).then(() => output.close());
    void late; // ends with `done`; closing never rejects
  };
  limit.signal.addEventListener("abort", kill, { once: true });
  if (limit.signal.aborted) kill();
  const tail = new OutputTail();
  try {
    const hear = (line: string) => {
      tail.push(line);
      step.onLine?.(line);
    };
    await readLines(output, hear);
    const end = await process.exited;
    limit.signal.throwIfAborted();
    if (end.exitCode === 0) return;
    const how = end.exitCode === null ? `was ended by ${end.signal}` : `ended with ${end.exitCode}`;
    throw tail.toError(`${what} ${how}`);
  } finally {
    limit.signal.removeEventListener("abort", kill);
    done.abort();
    await killing;
    await output.close();
    await limit.release();
  }
}

/**
 * A bwrap that dies before its child has asked to die with it leaves the child waiting for good: so it is stopped, its
 * children are killed, then it is.
 */
async function killTree(process: StartedProcess, clock: Clock): Promise<void> {
  process.kill("SIGSTOP");
  for (let i = 0; i < IMAGE_LIMITS.killMs && !["T", "Z", null].includes(stateOf(process.pid)); i += 1)
    await clock.sleep(1);
  for (const pid of descendantsOf(process.pid)) signalProcess(pid, "SIGKILL");
  process.kill("SIGKILL");
}

/** The pipe ends when the last process that holds it has: reading it to the end is waiting for all of them. */
async function readLines(output: PipeReader, hear: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const chunk = await output.next(NEVER);
    if (chunk === null || chunk === "aborted") break;
    const lines = (rest + decoder.decode(chunk, { stream: true })).split(/[\r\n]+/);
    rest = (lines.pop() ?? "").slice(0, IMAGE_LIMITS.outputLineCharsMax);
    for (const line of lines) if (line.trim() !== "") hear(line.slice(0, IMAGE_LIMITS.outputLineCharsMax));
  }
  if (rest.trim() !== "") hear(rest);
}

function start(host: BuildHost, step: BuildStep) {
  const { readFd, writeFd } = openPipe("read");
  const output = new PipeReader(readFd);
  let filterFd = -1;
  try {
    filterFd = unnamedFileOf(pretendingFilter(process.arch === "arm64" ? "arm64" : "x64"));
    const confinement: Confinement = {
      bwrapPath: host.bwrapPath,
      view: step.view,
      env: {
        PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        LC_ALL: "C.UTF-8",
        HOME: "/tmp",
        ...step.env,
      },
      filterFd: FILTER_FD,
      mounts: step.mounts ?? false,
      network: step.network ?? false,
    };
    const started = startProcess({
      argv: confinedArgv(confinement, step.argv),
      env: { PATH: "/usr/bin:/bin" },
      uid: host.sandboxUid,
      stdio: [null, writeFd, writeFd, filterFd],
    });
    return { process: started, output };
  } catch (cause) {
    void output.close(); // never rejects
    throw new ImageError("machine", `a program of the build cannot be started: ${String(cause)}`, { cause });
  } finally {
    closeSync(writeFd);
    if (filterFd >= 0) closeSync(filterFd);
  }
}
