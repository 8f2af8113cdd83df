import { type Clock, deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { newNonce } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import type { BoundedOutput } from "./bounded-output.ts";
import type { Cell } from "./cell.ts";
import type { FramedOutput, Wait } from "./framed-output.ts";
import { writeOrDrop } from "./pipes.ts";
import {
  descendantMarksOf,
  descendantsOf,
  innerPidOf,
  isMarkRunning,
  isRunning,
  markOf,
  type ProcessMark,
  parentOf,
  signalProcess,
} from "./process-tree.ts";
import type { LadderStep } from "./sandbox.ts";

export type SessionName = "shell" | "python" | "terminal";

/** How an interpreter of a sandbox is started. Every text goes into a pipe and ends with a newline. */
export interface SessionStart {
  readonly name: SessionName;
  /** Runs before each start, such as writing the worker's file. Throws sandbox_limit when the disk is full. */
  prepare(): void;
  /** Makes the fresh session answer with a mark `nonce PID`. */
  hello(nonce: string): string;
  /** What a restart loses, for the model. */
  readonly lost: string;
  /** What the image lacks when the session ends with 127 at its start; null when every image can start it. */
  readonly missing: string | null;
  /** Whether its parent stands between the pipes and it, as what holds a terminal does: it must be gone too before a restart. */
  readonly isCarried: boolean;
}

export interface SessionPipes {
  /** Our end of the session's stdin; owned by the sandbox. */
  inputFd: number;
  output: FramedOutput;
}

export interface Leader {
  /** Names this start: an end that is told late belongs to an earlier one. */
  begin: string;
  /** Null until it said its pid. */
  process: ProcessMark | null;
  /** Null where nothing stands between it and the pipes. */
  carrier: ProcessMark | null;
  /** Whether `supervisorLost` looks at it already. */
  isWatched: boolean;
  /** Aborted with its exit code when it ends. */
  end: AbortController;
}

/** A fork bomb makes new processes while the old ones are killed. */
const KILL_PASSES_MAX = 20;
/** 128 and the number of SIGKILL, as a shell counts it. */
const KILLED = 137;
/** A shell's exit code for a program that is not there. */
const NOT_FOUND = 127;

/** The process behind a session: started when it is needed, waited for with a bound, killed and started anew. */
export class SessionProcess {
  readonly #start: SessionStart;
  readonly #pipes: SessionPipes;
  readonly #cell: () => Cell;
  readonly #clock: Clock;
  #leader: Leader | null = null;
  #ordered: Leader | null = null;

  constructor(start: SessionStart, pipes: SessionPipes, cell: () => Cell, clock: Clock) {
    this.#start = start;
    this.#pipes = pipes;
    this.#cell = cell;
    this.#clock = clock;
  }

  /** The supervisor says that the session ended; `exitCode` as a shell counts it. */
  leaderEnded(begin: string, exitCode: number): void {
    for (const leader of [this.#leader, this.#ordered]) if (leader?.begin === begin) leader.end.abort(exitCode);
  }

  /**
   * The words with which PID 1 starts the session as soon as it runs itself; the next `ready` takes it over. Only for a
   * session that needs no preparation, and before an agent can reach it.
   */
  order(): string {
    this.#ordered = newLeader();
    return `${this.#start.name} ${this.#ordered.begin}`;
  }

  /** The agent killed the supervisor that would tell of the end: looks at the process itself from now on. */
  async supervisorLost(): Promise<void> {
    const leader = this.#leader;
    if (leader === null || leader.isWatched) return;
    leader.isWatched = true;
    while (isAlive(leader)) await this.#clock.sleep(LIMITS.sandboxLookMs);
    leader.end.abort(KILLED);
  }

  /**
   * The live session, started when there is none; a text says why it cannot be. `news` says, for the model, that an
   * earlier one had ended unheard.
   */
  async ready(signal: AbortSignal): Promise<{ leader: Leader | string; news: string | null }> {
    const old = this.#leader;
    if (old !== null && isAlive(old)) return { leader: old, news: null };
    if (old !== null && old.process !== null) await this.#abandon(old); // what carried it may still read the pipe
    const leader = await this.#begin(null, signal);
    const isNews = old !== null && typeof leader !== "string";
    return { leader, news: isNews ? `The ${this.#start.name} session had ended. ${this.#said(leader)}` : null };
  }

  /** False when the session's pipe does not take the text: it does not listen. */
  write(text: string): boolean {
    return writeOrDrop(this.#pipes.inputFd, text);
  }

  /** Gives to `sink` what was written and is no mark's beginning. */
  flush(sink: BoundedOutput): void {
    this.#pipes.output.flush(sink);
  }

  /** Waits for a mark, the session's end or `ms`. Throws the signal's reason on abort, with the session killed. */
  async wait(
    nonces: readonly string[],
    sink: BoundedOutput | null,
    { leader, ms, signal }: { leader: Leader; ms: number; signal: AbortSignal },
  ): Promise<Exclude<Wait, "aborted"> | "died" | "late"> {
    const limit = deadline(this.#clock, ms, AbortSignal.any([signal, leader.end.signal]), "late");
    const wait = await this.#pipes.output.until(nonces, sink, limit.signal);
    await limit.release();
    if (wait !== "aborted") return wait;
    if (signal.aborted) {
      await this.#abandon(leader);
      throw signal.reason;
    }
    // An agent that kills what would tell of the end kills the session unheard.
    if (leader.process !== null && !isAlive(leader)) {
      // Whoever tells of it may be about to; the first reason stays.
      await this.#clock.sleep(LIMITS.sandboxLadderStepMs, leader.end.signal);
      leader.end.abort(KILLED);
    }
    return leader.end.signal.aborted ? "died" : "late";
  }

  /** False when there was nobody to send it to. */
  send(leader: Leader, { signal, target }: LadderStep): boolean {
    if (leader.process === null || !isMarkRunning(leader.process)) return false;
    const { pid } = leader.process;
    if (target === "leader") {
      signalProcess(pid, signal);
      return true;
    }
    const passes = signal === "SIGKILL" ? KILL_PASSES_MAX : 1;
    for (let pass = 0; pass < passes; pass += 1) {
      const below = descendantMarksOf(pid).filter(isMarkRunning);
      if (below.length === 0) return pass > 0;
      // Children first: a parent that waits for them then ends by itself. Looked at once more, as numbers come round.
      for (const each of below.reverse()) if (isMarkRunning(each)) signalProcess(each.pid, signal);
    }
    return true;
  }

  /** Starts it anew; what the old one still had written goes to `sink`. Gives what is to be said of it. */
  async restart(old: Leader, sink: BoundedOutput | null, signal: AbortSignal): Promise<string> {
    await this.#abandon(old);
    return this.#said(await this.#begin(sink, signal));
  }

  /** Ends the whole sandbox: its session can neither be stopped nor be started. */
  async giveUp(): Promise<never> {
    await this.#cell().kill("limit");
    return this.gone();
  }

  /** Throws why the sandbox is no longer there. */
  async gone(): Promise<never> {
    const end = await this.#cell().ended;
    if (end === "limit")
      throw new RolloutError("sandbox_limit", "the agent ended its own sandbox or ran into its limits");
    throw new RolloutError("sandbox_lost", end === "closed" ? "the sandbox was closed" : "the sandbox was killed");
  }

  /** Kills a session and sees it gone: two of them would share one pipe. One that has no pid yet takes all with it. */
  async #abandon(leader: Leader): Promise<void> {
    if (leader.process === null) return this.#cell().kill("closed");
    for (const target of ["below", "leader"] as const) this.send(leader, { signal: "SIGKILL", target });
    const marks = [leader.process, leader.carrier].filter((each) => each !== null);
    if (leader.carrier !== null && isMarkRunning(leader.carrier)) signalProcess(leader.carrier.pid, "SIGKILL");
    for (let ms = 0; ms < LIMITS.sandboxKillMs && marks.some(isMarkRunning); ms += 1) await this.#clock.sleep(1);
    leader.end.abort(KILLED);
  }

  /** Gives why it cannot be, when its files do not fit or the image cannot run it. */
  async #begin(sink: BoundedOutput | null, signal: AbortSignal): Promise<Leader | string> {
    const prepared = refusalOf(() => this.#start.prepare());
    if (prepared !== null) return prepared;
    const hello = newNonce();
    const leader = this.#ordered ?? newLeader();
    const { begin } = leader;
    if (this.#ordered === null) this.#cell().tell(`${this.#start.name} ${begin}`);
    this.#ordered = null;
    this.#leader = leader;
    const limits = { leader, ms: LIMITS.sandboxRestartMs, signal };
    const begun = await this.wait([begin], sink, limits);
    this.write(this.#start.hello(hello));
    const ready = typeof begun === "object" ? await this.wait([hello], null, limits) : begun;
    if (ready === "ended") await this.gone();
    if (typeof ready === "object") {
      const inner = Number(ready.words[0]);
      const pid = descendantsOf(this.#cell().initPid).find((each) => innerPidOf(each) === inner) ?? 0;
      leader.process = markOf(pid);
      if (this.#start.isCarried) leader.carrier = markOf(parentOf(pid) ?? 0);
    }
    if (leader.process !== null) return leader;
    this.#leader = null;
    if (leader.end.signal.reason === NOT_FOUND && this.#start.missing !== null) return this.#start.missing;
    // Whoever kills all of it from outside may be about to: by whose doing it ended, `ended` knows.
    await this.#clock.sleep(LIMITS.sandboxLookMs);
    if (!isRunning(this.#cell().initPid)) await this.gone();
    // It cannot start: no process or memory left in the sandbox, or an agent that kills it at once.
    await this.#cell().kill("limit");
    throw new RolloutError("sandbox_limit", `the ${this.#start.name} session of a sandbox could not be started`);
  }

  /** Words about an attempt to start it anew. */
  #said(started: Leader | string): string {
    return typeof started === "string"
      ? `A new one could not be started: ${started}.`
      : `A new one was started: ${this.#start.lost}`;
  }
}

/** Why something cannot be written to the sandbox's disk, which the agent may have filled: that is for the model to mend. */
export function refusalOf(write: () => void): string | null {
  try {
    write();
    return null;
  } catch (error) {
    if (error instanceof RolloutError && error.reason === "sandbox_limit") return error.detail;
    throw error;
  }
}

function newLeader(): Leader {
  return { begin: newNonce(), process: null, carrier: null, isWatched: false, end: new AbortController() };
}

function isAlive({ process, end }: Leader): boolean {
  return !end.signal.aborted && process !== null && isMarkRunning(process);
}
