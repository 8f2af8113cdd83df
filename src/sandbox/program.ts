import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { BoundedOutput } from "./bounded-output.ts";
import { placeFiles } from "./bubblewrap-sandbox.ts";
import { DEFAULT_CWD } from "./bwrap-args.ts";
import { Cell } from "./cell.ts";
import type { CellHost } from "./cell-launch.ts";
import { signalOf } from "./command-result.ts";
import type { SandboxImage } from "./image.ts";
import { LineReader } from "./line-reader.ts";
import { PipeReader } from "./pipe-reader.ts";
import { PipeWriter } from "./pipe-writer.ts";
import { LooseDescriptors, openPipes } from "./pipes.ts";
import type { ProgramOptions, ProgramResult, SandboxEnd, SandboxProgram } from "./sandbox.ts";
import { PROGRAM_FDS, programCommand } from "./supervisor-script.ts";

export interface StartOptions extends ProgramOptions {
  rootImage: SandboxImage;
  /** The verified file of `restore`; closed here in every case. Null without one. */
  snapshotFd: number | null;
}

const PROGRAM_PIPES = {
  stdin: "write",
  stdout: "read",
  stderr: "read",
  controlIn: "write",
  controlOut: "read",
} as const;

interface Parts {
  cell: Cell;
  stdin: PipeWriter;
  stdout: LineReader;
  stderr: ErrorOutput;
  startedAtMs: number;
}

/** One program in a sandbox of its own. `startProgram` is the only way to make one. */
export class BubblewrapProgram implements SandboxProgram {
  readonly ended: Promise<SandboxEnd>;
  readonly #closed = Promise.withResolvers<void>();
  readonly #parts: Parts;
  readonly #release: () => Promise<void>;
  readonly #endedAtMs: Promise<number>;
  #closing: Promise<void> | null = null;

  constructor(parts: Parts, release: () => Promise<void>) {
    this.#parts = parts;
    this.#release = release;
    // A program ends by itself: that is no limit, whatever its exit code.
    this.ended = parts.cell.ended.then((end) => (end === "limit" ? "closed" : end));
    this.#endedAtMs = parts.cell.exited.then(() => performance.now());
  }

  /** Resolves when `close` is over; never rejects. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  write(bytes: Uint8Array | string): Promise<void> {
    return this.#parts.stdin.write(bytes);
  }

  closeStdin(): void {
    this.#parts.stdin.end();
  }

  readLine(signal: AbortSignal): Promise<string | null> {
    return this.#parts.stdout.next(signal);
  }

  async wait(signal: AbortSignal): Promise<ProgramResult> {
    const { cell, stdout, stderr, startedAtMs } = this.#parts;
    await stdout.drain(signal);
    await settledOr(signal, Promise.all([this.ended, stderr.done]));
    if ((await this.ended) === "lost") throw new RolloutError("sandbox_lost", "the sandbox of a program was killed");
    const { exitCode } = await cell.exited;
    return {
      stdout: stdout.seen.text(),
      stderr: stderr.seen.text(),
      stdoutTruncated: stdout.seen.truncated,
      ...splitExit(exitCode),
      ms: (await this.#endedAtMs) - startedAtMs,
    };
  }

  close(): Promise<void> {
    this.#closing ??= this.#release().finally(this.#closed.resolve);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Starts a program with its files in place. On failure or abort nothing is left. */
export async function startProgram(
  host: CellHost,
  options: StartOptions,
  signal: AbortSignal,
): Promise<BubblewrapProgram> {
  const { sandboxUid } = host.stage;
  const cwd = options.cwd ?? options.rootImage.cwd ?? DEFAULT_CWD;
  using loose = new LooseDescriptors();
  if (options.snapshotFd !== null) loose.hold(options.snapshotFd);
  const pipes = openPipes(PROGRAM_PIPES, sandboxUid, loose);
  await using owned = new AsyncDisposableStack();
  const stdin = owned.use(new PipeWriter(loose.take(pipes.stdin.ours)));
  const stdout = owned.use(new LineReader(new PipeReader(loose.take(pipes.stdout.ours))));
  const stderr = owned.use(new ErrorOutput(new PipeReader(loose.take(pipes.stderr.ours))));
  const start = Cell.start(
    host,
    {
      limits: options.limits,
      image: options.rootImage,
      env: options.env ?? {},
      command: programCommand(cwd, options.argv),
      stdio: [pipes.stdin, pipes.stdout, pipes.stderr].map((pipe) => loose.take(pipe.theirs)),
      extra: [pipes.controlIn, pipes.controlOut].map((pipe) => loose.take(pipe.theirs)),
      controlIn: loose.take(pipes.controlIn.ours),
      controlOut: loose.take(pipes.controlOut.ours),
      snapshotFd: options.snapshotFd === null ? null : loose.take(options.snapshotFd),
      firstWords: "",
      controlFd: PROGRAM_FDS.controlIn,
      onLine: () => {},
    },
    signal,
  );
  const cell = await start.catch(async (error: unknown) => {
    await stderr.done;
    if (signal.aborted || stderr.seen.totalBytes === 0) throw error;
    throw new RolloutError("sandbox_lost", `a sandbox did not start: ${stderr.seen.text().trim()}`, { cause: error });
  });
  owned.defer(() => cell.close());
  placeFiles({ fd: cell.rootFd, uid: sandboxUid }, options, cwd);
  cell.tell("go");
  const release = owned.move();
  const parts = { cell, stdin, stdout, stderr, startedAtMs: performance.now() };
  return new BubblewrapProgram(parts, () => release.disposeAsync());
}

/** Reads all of stderr as it comes, so that a program never waits for it, and keeps its head. */
class ErrorOutput {
  readonly seen = new BoundedOutput({ headBytesMax: LIMITS.outputBytesMax, tailBytesMax: 0 });
  readonly done: Promise<void>;
  readonly #pipe: PipeReader;

  constructor(pipe: PipeReader) {
    this.#pipe = pipe;
    this.done = this.#pump();
  }

  async #pump(): Promise<void> {
    const never = new AbortController().signal;
    for (;;) {
      const chunk = await this.#pipe.next(never);
      if (chunk === null || chunk === "aborted") return;
      this.seen.push(chunk);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pipe.close();
    await this.done;
  }
}

function splitExit(code: number | null): { exitCode: number | null; signal: string | null } {
  const signal = signalOf(code);
  return { exitCode: signal === null ? code : null, signal };
}

async function settledOr(signal: AbortSignal, work: Promise<unknown>): Promise<void> {
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
