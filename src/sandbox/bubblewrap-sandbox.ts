import { closeSync } from "node:fs";
import { RolloutError } from "../errors.ts";
import type { FileRoot } from "../libc.ts";
import { Cell, type CellHost } from "./cell.ts";
import { makeSandboxFolder, readSandboxFile, writeSandboxFile } from "./files.ts";
import { FramedOutput } from "./framed-output.ts";
import type { SandboxImage } from "./image.ts";
import { PipeReader } from "./pipe-reader.ts";
import { LooseDescriptors, openPipes, type Pipe } from "./pipes.ts";
import { pythonKind } from "./python.ts";
import type { CommandResult, Sandbox, SandboxEnd, SandboxFile, SandboxOptions } from "./sandbox.ts";
import { Session, type SessionKind } from "./session.ts";
import { shellKind } from "./shell.ts";
import { sessionCommand } from "./supervisor-script.ts";

export const DEFAULT_CWD = "/workspace";

const SESSION_PIPES = {
  controlIn: "write",
  controlOut: "read",
  shellIn: "write",
  shellOut: "read",
  pythonIn: "write",
  pythonOut: "read",
} as const;

export interface OpenOptions extends SandboxOptions {
  id: string;
  rootImage: SandboxImage;
}

/** A sandbox of bubblewrap with its sessions. `openSandbox` is the only way to make one. */
export class BubblewrapSandbox implements Sandbox {
  readonly id: string;
  readonly ended: Promise<SandboxEnd>;
  readonly #cell: Cell;
  readonly #root: FileRoot;
  readonly #shell: Session;
  readonly #python: Session;
  readonly #release: () => Promise<void>;
  /** Calls wait for the one before. */
  #last: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;

  constructor(parts: {
    id: string;
    cell: Cell;
    root: FileRoot;
    shell: Session;
    python: Session;
    release: () => Promise<void>;
  }) {
    this.id = parts.id;
    this.ended = parts.cell.ended;
    this.#cell = parts.cell;
    this.#root = parts.root;
    this.#shell = parts.shell;
    this.#python = parts.python;
    this.#release = parts.release;
  }

  shell(command: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult> {
    return this.#inTurn(() => this.#shell.run(command, options));
  }

  python(code: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult> {
    return this.#inTurn(() => this.#python.run(code, options));
  }

  writeFile(file: SandboxFile, signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      signal.throwIfAborted();
      await this.#refuseIfGone();
      writeSandboxFile(this.#root, file);
    });
  }

  async readFile(path: string, bytesMax: number): Promise<Uint8Array | null> {
    if (this.#closing !== null) throw new RolloutError("sandbox_lost", "the sandbox was closed");
    return readSandboxFile(this.#root, path, bytesMax);
  }

  async killProcesses(): Promise<void> {
    if (this.#cell.isLive) await this.#cell.kill("closed");
    await this.ended;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    // The processes go first: a call that still waits then ends by itself, and only then go its pipes.
    await this.killProcesses();
    await this.#last.catch(() => {});
    await this.#cell.close();
    await this.#release();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(async () => {
      await this.#refuseIfGone();
      return work();
    });
    this.#last = turn.catch(() => {});
    return turn;
  }

  async #refuseIfGone(): Promise<void> {
    if (this.#cell.isLive) return;
    const end = await this.ended;
    if (end === "limit")
      throw new RolloutError("sandbox_limit", "the agent ended its own sandbox or ran into its limits");
    throw new RolloutError("sandbox_lost", end === "closed" ? "the sandbox was closed" : "the sandbox was killed");
  }
}

/** Starts a sandbox and puts its files in place. On failure or abort nothing is left. */
export async function openSandbox(
  host: CellHost,
  options: OpenOptions,
  signal: AbortSignal,
): Promise<BubblewrapSandbox> {
  const { sandboxUid } = host.stage;
  const cwd = options.cwd ?? DEFAULT_CWD;
  using loose = new LooseDescriptors();
  const pipes = openPipes(SESSION_PIPES, sandboxUid, loose);
  await using owned = new AsyncDisposableStack();
  const session = (kind: SessionKind, input: Pipe, output: Pipe) => {
    const inputFd = loose.take(input.ours);
    owned.defer(() => closeSync(inputFd));
    const reader = new PipeReader(loose.take(output.ours));
    owned.defer(() => reader.close());
    return new Session(kind, { inputFd, output: new FramedOutput(reader) }, () => cell, host.clock);
  };
  const writeText = (path: string, text: string) => writeSandboxFile(root, { path, bytes: Buffer.from(text) });
  const shell = session(shellKind(writeText), pipes.shellIn, pipes.shellOut);
  const python = session(pythonKind(writeText), pipes.pythonIn, pipes.pythonOut);
  const cell: Cell = await Cell.start(
    host,
    {
      stage: { ...host.stage, limits: options.limits },
      image: options.rootImage,
      env: {},
      command: sessionCommand(cwd),
      stdio: [pipes.controlIn, pipes.controlOut, pipes.controlOut].map((pipe) => loose.take(pipe.theirs)),
      extra: [pipes.shellIn, pipes.shellOut, pipes.pythonIn, pipes.pythonOut].map((pipe) => loose.take(pipe.theirs)),
      controlIn: loose.take(pipes.controlIn.ours),
      controlOut: loose.take(pipes.controlOut.ours),
      onLine: (line) => hearSupervisor(line, { cell, shell, python }),
    },
    signal,
  );
  owned.defer(() => cell.close());
  const root: FileRoot = { fd: cell.rootFd, uid: sandboxUid };
  placeFiles(root, options, cwd);
  const release = owned.move();
  return new BubblewrapSandbox({ id: options.id, cell, root, shell, python, release: () => release.disposeAsync() });
}

/** Writes what the image and the task bring, and the working directory. */
export function placeFiles(root: FileRoot, options: Omit<OpenOptions, "id">, cwd: string): void {
  try {
    for (const { path, text } of options.rootImage.files) writeSandboxFile(root, { path, bytes: Buffer.from(text) });
    makeSandboxFolder(root, cwd);
    for (const file of options.files ?? []) writeSandboxFile(root, file);
  } catch (error) {
    // No agent was there yet: it is the machine or the task that fails.
    throw new RolloutError("sandbox_lost", "the files of a sandbox could not be put in place", { cause: error });
  }
}

/** `up` after the first: an agent killed all it could reach, and PID 1 started a new control loop. */
function hearSupervisor(line: string, sandbox: { cell: Cell; shell: Session; python: Session }): void {
  const [word, first, second] = line.split(" ");
  if (word === "up" && sandbox.cell.initPid > 0) {
    // The watch ends with the session's process, which `close` kills; nothing in it rejects.
    for (const session of [sandbox.shell, sandbox.python]) void session.supervisorLost();
  } else if ((word === "shell" || word === "python") && first !== undefined) {
    sandbox[word].leaderEnded(first, Number(second));
  }
}
