import { closeSync, fstatSync, statSync } from "node:fs";
import { deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { type CellHost, type CellOptions, type Launched, launch } from "./cell-launch.ts";
import type { BoxGroup } from "./cgroup-box.ts";
import { openRoot } from "./files.ts";
import type { PipeReader } from "./pipe-reader.ts";
import { writeOrDrop } from "./pipes.ts";
import type { ProcessEnd, StartedProcess } from "./process.ts";
import { childrenOf, descendantsOf, innerPidOf, isRunning, signalProcess, stateOf } from "./process-tree.ts";
import type { SandboxEnd } from "./sandbox.ts";
import { Layer } from "./snapshot.ts";

const LINE_CHARS_MAX = 1_024;
const ERROR_CHARS_MAX = 2_000;
const POLL_MS = 1;

/** One started bwrap: its control lines, its root seen from outside, its end. */
export class Cell {
  readonly ended: Promise<SandboxEnd>;
  /** How PID 1 ended; bwrap passes its exit code on. */
  readonly exited: Promise<ProcessEnd>;
  readonly #process: StartedProcess;
  readonly #host: CellHost;
  readonly #control: PipeReader;
  readonly #group: BoxGroup | null;
  readonly #layerPath: string;
  #layer: Layer | null = null;
  readonly #controlIn: number;
  readonly #onLine: (line: string) => void;
  readonly #listening: Promise<void>;
  readonly #up = Promise.withResolvers<boolean>();
  #initPid = 0;
  #memoryKills = 0;
  #rootFd = -1;
  #killed: SandboxEnd | null = null;
  #errors = "";
  #controlBytes = 0;
  #closing: Promise<void> | null = null;

  private constructor(host: CellHost, options: CellOptions, { started, control, group, layer }: Launched) {
    this.#host = host;
    this.#process = started;
    this.#control = control;
    this.#group = group;
    this.#layerPath = layer;
    this.#controlIn = options.controlIn;
    this.#onLine = options.onLine;
    this.exited = started.exited;
    this.ended = started.exited.then((end) => this.#classify(end));
    this.#listening = this.#listen();
  }

  /** Resolves when PID 1 answers and the root can be reached; on failure or abort nothing is left. */
  static async start(host: CellHost, options: CellOptions, signal: AbortSignal): Promise<Cell> {
    const cell = new Cell(host, options, await launch(host, options));
    const late = new RolloutError("sandbox_lost", `a sandbox did not start within ${LIMITS.sandboxStartMs} ms`);
    const limit = deadline(host.clock, LIMITS.sandboxStartMs, signal, late);
    const onAbort = () => cell.#up.resolve(false);
    limit.signal.addEventListener("abort", onAbort, { once: true });
    if (limit.signal.aborted) onAbort();
    try {
      const isUp = await cell.#up.promise;
      limit.signal.throwIfAborted();
      if (!isUp)
        throw new RolloutError("sandbox_lost", `a sandbox did not start: ${cell.#errors.trim() || "no reason given"}`);
      const [initPid] = childrenOf(cell.#process.pid);
      if (initPid === undefined) throw new RolloutError("sandbox_lost", "a sandbox ended as soon as it started");
      cell.#initPid = initPid;
      cell.#rootFd = openRoot(cell.#initPid);
      // Files are written there by their paths: a root that is not the sandbox's own would be this machine's.
      if (isOwnRoot(cell.#rootFd) || innerPidOf(initPid) !== 1)
        throw new RolloutError("sandbox_lost", "a sandbox did not get a root and process ids of its own");
      return cell;
    } catch (error) {
      await cell.close();
      throw error;
    } finally {
      limit.signal.removeEventListener("abort", onAbort);
      await limit.release();
    }
  }

  /** The root folder of the sandbox, for `openInRoot`; good until `close`, also when all processes are gone. */
  get rootFd(): number {
    return this.#rootFd;
  }

  /** Host pid of the bwrap that started it and waits for its end. */
  get monitorPid(): number {
    return this.#process.pid;
  }

  /** Host pid of the sandbox's PID 1. */
  get initPid(): number {
    return this.#initPid;
  }

  /** Whether nothing was asked to end and nothing ended. */
  get isLive(): boolean {
    return this.#killed === null && !this.#process.hasExited;
  }

  /** How often the kernel killed a process of the sandbox because its memory was used up; 0 where no cgroup counts. */
  get memoryKills(): number {
    this.#memoryKills = Math.max(this.#memoryKills, this.#group?.memoryKills() ?? 0);
    return this.#memoryKills;
  }

  /** Says that somebody waits for an answer from now on. */
  favour(): void {
    if (this.#group !== null && this.isLive) this.#host.groups?.favour(this.#group);
  }

  /**
   * What a snapshot is made of: taken before the processes go, it is good until `close`. Null when they went by themselves.
   */
  holdLayer(): Layer | null {
    if (this.#layer === null && !this.#process.hasExited) {
      try {
        this.#layer = Layer.open(this.#process.pid, this.#layerPath);
      } catch {
        return null; // it was quicker
      }
    }
    return this.#layer;
  }

  /** Sends one line to PID 1; one that cannot be taken at once is dropped, as PID 1 is then no longer listening. */
  tell(line: string): void {
    writeOrDrop(this.#controlIn, `${line}\n`);
  }

  /** Kills every process of the sandbox and resolves when they are gone. `end` is what `ended` will say. */
  async kill(end: SandboxEnd): Promise<void> {
    this.#killed ??= end;
    if (this.#initPid > 0) signalProcess(this.#initPid, "SIGKILL");
    else await this.#killStarting();
    // bwrap ends when its child is gone; if it does not, it is killed too and the child by its parent-death signal.
    await this.#exitedWithin(LIMITS.sandboxKillMs / 2);
    if (!this.#process.hasExited) this.#process.kill("SIGKILL");
    await this.ended;
  }

  /** Kills everything and gives back the descriptors. Safe to call twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (!this.#process.hasExited) await this.kill("closed");
    await this.ended;
    await this.#control.close();
    await this.#listening;
    closeSync(this.#controlIn);
    if (this.#rootFd >= 0) closeSync(this.#rootFd);
    this.#rootFd = -1;
    this.#layer?.[Symbol.dispose]();
    this.#layer = null;
  }

  async #classify(end: ProcessEnd): Promise<SandboxEnd> {
    // bwrap reaps its child before it ends by itself; one that was killed leaves the child to the kernel.
    if (end.signal !== null && this.#initPid > 0) {
      signalProcess(this.#initPid, "SIGKILL");
      await this.#goneWithin([this.#initPid]);
    }
    this.#host.sweepOrphans();
    const isOut = this.memoryKills > 0; // bwrap itself may have been the one that the kernel chose
    if (this.#group !== null) await this.#host.groups?.remove(this.#group);
    return this.#killed ?? (end.signal === null || isOut ? "limit" : "lost");
  }

  /** A bwrap killed between its clone and its child's prctl leaves a child that waits for ever: stop it, then look. */
  async #killStarting(): Promise<void> {
    const { pid } = this.#process;
    this.#process.kill("SIGSTOP");
    for (let i = 0; i < LIMITS.sandboxKillMs && !this.#process.hasExited && !isStopped(pid); i += 1) {
      await this.#host.clock.sleep(POLL_MS);
    }
    const children = descendantsOf(pid);
    for (const child of children) signalProcess(child, "SIGKILL");
    this.#process.kill("SIGKILL");
    await this.#process.exited;
    await this.#goneWithin(children);
  }

  async #exitedWithin(ms: number): Promise<void> {
    const timer = new AbortController();
    await Promise.race([this.#process.exited, this.#host.clock.sleep(ms, timer.signal)]);
    timer.abort();
  }

  async #goneWithin(pids: readonly number[]): Promise<void> {
    for (let i = 0; i < LIMITS.sandboxKillMs; i += 1) {
      if (!pids.some(isRunning)) return;
      await this.#host.clock.sleep(POLL_MS);
    }
    this.#host.log.error("sandbox:processes_stay", { pids });
  }

  async #listen(): Promise<void> {
    const never = new AbortController().signal;
    let rest = "";
    for (;;) {
      const chunk = await this.#control.next(never);
      if (chunk === null || chunk === "aborted") break;
      this.#boundControl(chunk.length);
      const lines = (rest + Buffer.from(chunk).toString("latin1")).split("\n");
      rest = (lines.pop() ?? "").slice(-LINE_CHARS_MAX);
      for (const line of lines) this.#hear(line);
    }
    this.#errors = `${this.#errors}${rest}`.slice(-ERROR_CHARS_MAX);
    await this.#process.exited;
    this.#up.resolve(false);
  }

  /** Only an agent that writes into PID 1's own pipe reaches the bound; lines or none, reading it costs the server. */
  #boundControl(bytes: number): void {
    this.#controlBytes += bytes;
    if (this.#controlBytes <= LIMITS.sandboxControlBytesMax || this.#initPid === 0 || !this.isLive) return;
    this.#killed = "limit";
    signalProcess(this.#initPid, "SIGKILL");
  }

  #hear(line: string): void {
    if (this.#initPid > 0) {
      this.#onLine(line);
    } else if (line === "up") {
      this.#up.resolve(true);
    } else {
      this.#errors = `${this.#errors}${line}\n`.slice(-ERROR_CHARS_MAX);
    }
  }
}

function isOwnRoot(fd: number): boolean {
  const [there, own] = [fstatSync(fd), statSync("/")];
  return there.dev === own.dev && there.ino === own.ino;
}

function isStopped(pid: number): boolean {
  return !isRunning(pid) || stateOf(pid) === "T";
}
