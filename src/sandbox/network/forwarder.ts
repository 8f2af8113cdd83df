import { closeSync } from "node:fs";
import { type Clock, deadline } from "../../clock.ts";
import { RolloutError } from "../../errors.ts";
import { LIMITS } from "../../limits.ts";
import { LineReader } from "../line-reader.ts";
import { PipeReader } from "../pipe-reader.ts";
import { LooseDescriptors, openPipes } from "../pipes.ts";
import { type StartedProcess, startProcess, unnamedFileOf } from "../process.ts";
import forwarderSource from "./forwarder.py" with { type: "text" };

/** Where programs inside find the proxy. */
export const PROXY_PORT = 3_128;

export interface ForwarderOptions {
  /** The uid of sandboxes; null when the server is an ordinary user. */
  uid: number | null;
  /** Host pids of the sandbox's bwrap and of its PID 1. */
  monitorPid: number;
  initPid: number;
  /** A path descriptor of the proxy's socket; stays the caller's. */
  socketFd: number;
  clock: Clock;
}

/**
 * The process that listens on 127.0.0.1 inside a sandbox's network and joins each connection to the proxy. It is in the
 * sandbox's network namespace and in no other of its namespaces, without capabilities, so it needs nothing of the image
 * and the agent cannot reach it. `startForwarder` is the only way to make one.
 */
export class Forwarder implements AsyncDisposable {
  readonly #process: StartedProcess;
  readonly #release: () => Promise<void>;

  constructor(process: StartedProcess, release: () => Promise<void>) {
    this.#process = process;
    this.#release = release;
  }

  /** Resolves when the process is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill("SIGKILL");
    await this.#process.exited;
    await this.#release();
  }
}

/** Resolves when it listens. Throws RolloutError sandbox_lost when it does not, and leaves nothing. */
export async function startForwarder(options: ForwarderOptions, signal: AbortSignal): Promise<Forwarder> {
  const { uid, socketFd, clock } = options;
  using loose = new LooseDescriptors();
  await using owned = new AsyncDisposableStack();
  const pipes = openPipes({ stdin: "write", stdout: "read" }, uid, loose);
  const program = unnamedFileOf(Buffer.from(forwarderSource));
  loose.hold(program);
  const stdinFd = loose.take(pipes.stdin.ours);
  owned.defer(() => closeSync(stdinFd));
  const stdout = owned.use(new LineReader(new PipeReader(loose.take(pipes.stdout.ours))));
  const started = startProcess({
    argv: forwarderArgv(options),
    env: { PATH: "/usr/bin:/bin" },
    uid,
    stdio: [pipes.stdin.theirs, pipes.stdout.theirs, pipes.stdout.theirs, program, null, socketFd],
  });
  owned.defer(async () => {
    started.kill("SIGKILL");
    await started.exited;
  });
  // Its own ends must be closed here, or the pipe would not end with the process.
  for (const fd of [pipes.stdin.theirs, pipes.stdout.theirs]) closeSync(loose.take(fd));
  const late = new RolloutError("sandbox_lost", "the network of a sandbox did not start in time");
  const limit = deadline(clock, LIMITS.sandboxStartMs, signal, late);
  try {
    const line = await stdout.next(limit.signal);
    if (line !== "up") throw new RolloutError("sandbox_lost", `the network of a sandbox did not start: ${line ?? ""}`);
  } finally {
    await limit.release();
  }
  const rest = owned.move();
  return new Forwarder(started, () => rest.disposeAsync());
}

/**
 * The stage's user namespace comes first: it is the parent of those that bwrap made, so what enters it may enter the
 * network too. Then every right is given up again. The user stays who it is, which is 0 there.
 */
function forwarderArgv({ monitorPid, initPid }: ForwarderOptions): string[] {
  return [
    "/usr/bin/nsenter",
    "--preserve-credentials",
    `--user=/proc/${monitorPid}/ns/user`,
    `--net=/proc/${initPid}/ns/net`,
    "/usr/bin/setpriv",
    "--no-new-privs",
    "--inh-caps=-all",
    "--ambient-caps=-all",
    "--bounding-set=-all",
    "/usr/bin/prlimit",
    "--core=0",
    "/usr/bin/python3",
    "-I",
    "-S",
    "/proc/self/fd/3",
    String(PROXY_PORT),
    String(LIMITS.networkConnectionsMax),
  ];
}
