import { RolloutError } from "../errors.ts";
import type { FileRoot } from "../libc.ts";
import type { NetworkLog, NetworkRule } from "../network-rule.ts";
import { DEFAULT_CWD } from "./bwrap-args.ts";
import { Cell } from "./cell.ts";
import type { CellHost } from "./cell-launch.ts";
import { kindOfSandboxFile, listSandboxFolder, readSandboxPart } from "./file-views.ts";
import { makeSandboxFolder, readSandboxFile, removeSandboxFile, writeSandboxFile } from "./files.ts";
import type { SandboxImage } from "./image.ts";
import { NETWORK_ENV, openNetwork, type SandboxNetwork } from "./network/sandbox-network.ts";
import { LooseDescriptors, openPipes } from "./pipes.ts";
import type {
  CommandResult,
  FileKind,
  FilePart,
  Sandbox,
  SandboxEnd,
  SandboxFile,
  SandboxOptions,
  SandboxSnapshot,
  TerminalInput,
  TerminalResult,
} from "./sandbox.ts";
import { createSessions, hearSupervisor, SESSION_ENDS, SESSION_PIPES, type Sessions } from "./sessions.ts";
import { sessionCommand } from "./supervisor-script.ts";
import { takeSnapshot } from "./take-snapshot.ts";

const CONTROL_PIPES = { controlIn: "write", controlOut: "read" } as const;

const MEMORY_NOTE = "The sandbox's memory was used up, and the kernel killed a process in it.";

export interface OpenOptions extends SandboxOptions {
  id: string;
  rootImage: SandboxImage;
  /** The verified file of `restore`; closed here in every case. Null without one. */
  snapshotFd: number | null;
}

/** A sandbox of bubblewrap with its sessions. `openSandbox` is the only way to make one. */
export class BubblewrapSandbox implements Sandbox {
  readonly id: string;
  readonly ended: Promise<SandboxEnd>;
  readonly #cell: Cell;
  readonly #root: FileRoot;
  readonly #sessions: Sessions;
  readonly #network: SandboxNetwork | null;
  readonly #keepLayer: (signal: AbortSignal) => Promise<SandboxSnapshot>;
  readonly #release: () => Promise<void>;
  readonly #closed = Promise.withResolvers<void>();
  /** Calls wait for the one before. */
  #last: Promise<unknown> = Promise.resolve();
  #closing: Promise<void> | null = null;
  #memoryKillsTold = 0;

  constructor(parts: {
    id: string;
    cell: Cell;
    root: FileRoot;
    sessions: Sessions;
    network: SandboxNetwork | null;
    keepLayer: (signal: AbortSignal) => Promise<SandboxSnapshot>;
    release: () => Promise<void>;
  }) {
    this.id = parts.id;
    this.ended = parts.cell.ended;
    this.#cell = parts.cell;
    this.#root = parts.root;
    this.#sessions = parts.sessions;
    this.#network = parts.network;
    this.#keepLayer = parts.keepLayer;
    this.#release = parts.release;
    // Before anything of an agent runs; why it cannot be started is told to the first who calls it.
    const never = new AbortController().signal;
    this.#last = parts.sessions.shell.process.ready(never).catch(() => {});
  }

  get networkLog(): NetworkLog | null {
    return this.#network?.log ?? null;
  }

  shell(command: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult> {
    return this.#inTurn(() => this.#watchMemory(() => this.#sessions.shell.run(command, options)));
  }

  python(code: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult> {
    return this.#inTurn(() => this.#watchMemory(() => this.#sessions.python.run(code, options)));
  }

  terminal(typed: TerminalInput, options: { timeoutMs: number; signal: AbortSignal }): Promise<TerminalResult> {
    return this.#inTurn(() => this.#watchMemory(() => this.#sessions.terminal.type(typed, options)));
  }

  writeFile(file: SandboxFile, signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      signal.throwIfAborted();
      writeSandboxFile(this.#root, file);
    });
  }

  removeFile(path: string, signal: AbortSignal): Promise<void> {
    return this.#inTurn(async () => {
      signal.throwIfAborted();
      removeSandboxFile(this.#root, path);
    });
  }

  async readFile(path: string, bytesMax: number): Promise<Uint8Array | null> {
    return readSandboxFile(this.#openRoot(), path, bytesMax);
  }

  async readPart(path: string, part: { start: number; bytesMax: number }): Promise<FilePart | null> {
    return readSandboxPart(this.#openRoot(), path, part);
  }

  async kindOf(path: string): Promise<FileKind | null> {
    return kindOfSandboxFile(this.#openRoot(), path);
  }

  async listFolder(path: string, namesMax: number): Promise<{ names: readonly string[]; more: boolean } | null> {
    return listSandboxFolder(this.#openRoot(), path, namesMax);
  }

  /** Resolves when `close` is over; never rejects. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Whether nothing was asked to end and nothing ended. */
  get isLive(): boolean {
    return this.#cell.isLive;
  }

  /** Resolves when the shell was started, which the first call waits for otherwise. */
  async warmUp(): Promise<void> {
    await this.#last;
  }

  /** Writes a task's files before the agent has begun. Throws RolloutError sandbox_lost when they do not fit. */
  placeFiles(files: readonly SandboxFile[]): void {
    if (this.isLive) placeTaskFiles(this.#root, files);
  }

  snapshot(signal: AbortSignal): Promise<SandboxSnapshot> {
    const turn = this.#last.then(() => {
      if (this.#closing !== null) throw new RolloutError("sandbox_lost", "the sandbox was closed");
      return this.#keepLayer(signal);
    });
    this.#last = turn.catch(() => {});
    return turn;
  }

  async killProcesses(): Promise<void> {
    this.#cell.holdLayer();
    if (this.#cell.isLive) await this.#cell.kill("closed");
    await this.ended;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close().finally(this.#closed.resolve);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    // The processes go first: a call that still waits then ends by itself, and only then go its pipes.
    if (this.#cell.isLive) await this.#cell.kill("closed");
    await this.ended;
    await this.#last.catch(() => {});
    await this.#cell.close();
    await this.#release();
  }

  /** The root, as long as its descriptor is open. */
  #openRoot(): FileRoot {
    if (this.#closing !== null) throw new RolloutError("sandbox_lost", "the sandbox was closed");
    return this.#root;
  }

  /** Says so when the kernel killed a process since the last call, which looks like any other kill to the agent. */
  async #watchMemory<T extends { note: string | null }>(call: () => Promise<T>): Promise<T> {
    this.#cell.favour();
    const result = await call();
    const kills = this.#cell.memoryKills;
    if (kills === this.#memoryKillsTold) return result;
    this.#memoryKillsTold = kills;
    return { ...result, note: [result.note, MEMORY_NOTE].filter((each) => each !== null).join(" ") };
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
  const cwd = options.cwd ?? options.rootImage.cwd ?? DEFAULT_CWD;
  const rules = options.network ?? [];
  using loose = new LooseDescriptors();
  if (options.snapshotFd !== null) loose.hold(options.snapshotFd);
  const pipes = openPipes({ ...CONTROL_PIPES, ...SESSION_PIPES }, sandboxUid, loose);
  await using owned = new AsyncDisposableStack();
  const place = { cell: () => cell, root: () => root, clock: host.clock };
  const sessions = createSessions(pipes, { loose, owned }, place);
  const cell: Cell = await Cell.start(
    host,
    {
      limits: options.limits,
      image: options.rootImage,
      env: rules.length === 0 ? {} : NETWORK_ENV,
      command: sessionCommand(cwd),
      stdio: [pipes.controlIn, pipes.controlOut, pipes.controlOut].map((pipe) => loose.take(pipe.theirs)),
      extra: SESSION_ENDS.map((name) => loose.take(pipes[name].theirs)),
      controlIn: loose.take(pipes.controlIn.ours),
      controlOut: loose.take(pipes.controlOut.ours),
      // Beside the work below: a shell takes as long to start as the rest of it.
      firstWords: cwd === DEFAULT_CWD && options.restore === undefined ? `${sessions.shell.process.order()}\n` : "",
      controlFd: 0,
      snapshotFd: options.snapshotFd === null ? null : loose.take(options.snapshotFd),
      // It may speak before `start` has given the cell.
      onLine: (line) => hearSupervisor(line, sessions),
    },
    signal,
  );
  owned.defer(() => cell.close());
  const root: FileRoot = { fd: cell.rootFd, uid: sandboxUid };
  placeFiles(root, options, cwd);
  const network = await openRules(host, rules, cell, signal);
  if (network !== null) owned.use(network);
  const release = owned.move();
  return new BubblewrapSandbox({
    id: options.id,
    cell,
    root,
    sessions,
    network,
    keepLayer: (until) =>
      takeSnapshot({ host, cell }, { imageId: options.rootImage.id, limits: options.limits }, until),
    release: () => release.disposeAsync(),
  });
}

/** The sandbox's way out; null when it has none. */
async function openRules(
  host: CellHost,
  rules: readonly NetworkRule[],
  { monitorPid, initPid }: Cell,
  signal: AbortSignal,
): Promise<SandboxNetwork | null> {
  if (rules.length === 0) return null;
  const { clock, network, stage } = host;
  return openNetwork(network, { rules, clock, monitorPid, initPid, uid: stage.sandboxUid }, signal);
}

/** Writes what the image and the task bring, and the working directory. */
export function placeFiles(root: FileRoot, options: Omit<OpenOptions, "id">, cwd: string): void {
  try {
    const own = options.restore === undefined ? options.rootImage.files : []; // the agent may have changed them since
    for (const { path, text } of own) writeSandboxFile(root, { path, bytes: Buffer.from(text) });
    makeSandboxFolder(root, cwd);
  } catch (error) {
    throw notPlaced(error);
  }
  placeTaskFiles(root, options.files ?? []);
}

function placeTaskFiles(root: FileRoot, files: readonly SandboxFile[]): void {
  try {
    for (const file of files) writeSandboxFile(root, file);
  } catch (error) {
    throw notPlaced(error);
  }
}

/** No agent was there yet: it is the machine or the task that fails. */
function notPlaced(cause: unknown): RolloutError {
  return new RolloutError("sandbox_lost", "the files of a sandbox could not be put in place", { cause });
}
