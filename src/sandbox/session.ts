import { type Clock, deadline } from "../clock.ts";
import { RolloutError } from "../errors.ts";
import { newNonce } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { BoundedOutput } from "./bounded-output.ts";
import { type Cell, writeOrDrop } from "./cell.ts";
import type { FramedOutput, Wait } from "./framed-output.ts";
import {
  descendantsOf,
  innerPidOf,
  isMarkRunning,
  isRunning,
  markOf,
  type ProcessMark,
  signalProcess,
} from "./process-tree.ts";
import type { CommandResult } from "./sandbox.ts";

/** What differs between the shell and the Python worker. Every text goes into a pipe and ends with a newline. */
export interface SessionKind {
  readonly name: "shell" | "python";
  /** Runs before each start, such as writing the worker's file. Like `request`, throws sandbox_limit when the disk is full. */
  prepare(): void;
  /** Makes the fresh session answer with a mark `nonce PID`. */
  hello(nonce: string): string;
  /** Makes it run `text` and then answer with a mark `nonce EXIT_CODE`. */
  request(text: string, nonce: string): string;
  /** After an interrupt that swallows the request's own mark: a request whose mark shows that it listens again. */
  resync: ((nonce: string) => string) | null;
  /** Takes out of an output what the session itself wrote into it. */
  clean(output: string): string;
  /** What a restart loses, for the model. */
  readonly lost: string;
}

export interface SessionPipes {
  /** Our end of the session's stdin; owned by the sandbox. */
  inputFd: number;
  output: FramedOutput;
}

interface Leader {
  /** Names this start: an end that is told late belongs to an earlier one. */
  begin: string;
  /** Null until it said its pid. */
  process: ProcessMark | null;
  /** Whether `supervisorLost` looks at it already. */
  isWatched: boolean;
  /** Aborted with its exit code when it ends. */
  end: AbortController;
}

/** How a call ended, before it is a CommandResult. */
interface Outcome {
  exitCode: number | null;
  timedOut: boolean;
  note: string | null;
}

/** The gentlest first: a terminal's Ctrl-C for what the command started, then for the session itself, then the kill. */
const LADDER = [
  { signal: "SIGINT", target: "below", said: "It was interrupted." },
  { signal: "SIGINT", target: "leader", said: "It was interrupted." },
  { signal: "SIGKILL", target: "below", said: "It ignored the interrupt and was killed." },
  { signal: "SIGKILL", target: "leader", said: "It could not be stopped otherwise, so the session was killed." },
] as const;
/** A fork bomb makes new processes while the old ones are killed. */
const KILL_PASSES_MAX = 20;
/** 128 and the number of SIGKILL, as a shell counts it. */
const KILLED = 137;

/** A persistent interpreter in a sandbox: one call at a time, restarted when it dies, never waited for without bound. */
export class Session {
  readonly #kind: SessionKind;
  readonly #pipes: SessionPipes;
  readonly #cell: () => Cell;
  readonly #clock: Clock;
  #leader: Leader | null = null;

  constructor(kind: SessionKind, pipes: SessionPipes, cell: () => Cell, clock: Clock) {
    this.#kind = kind;
    this.#pipes = pipes;
    this.#cell = cell;
    this.#clock = clock;
  }

  /** The supervisor says that the session ended; `exitCode` as a shell counts it. */
  leaderEnded(begin: string, exitCode: number): void {
    if (this.#leader?.begin === begin) this.#leader.end.abort(exitCode);
  }

  /** The agent killed the supervisor that would tell of the end: looks at the process itself from now on. */
  async supervisorLost(): Promise<void> {
    const leader = this.#leader;
    if (leader === null || leader.isWatched) return;
    leader.isWatched = true;
    while (isAlive(leader)) await this.#clock.sleep(LIMITS.sandboxLookMs);
    leader.end.abort(KILLED);
  }

  /** Runs `text`. Throws the signal's reason on abort, and RolloutError when the sandbox is gone. */
  async run(text: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult> {
    const start = performance.now();
    const half = LIMITS.outputBytesMax / 2;
    options.signal.throwIfAborted();
    const sink = new BoundedOutput({ headBytesMax: half, tailBytesMax: half });
    const old = this.#leader;
    const leader = old !== null && isAlive(old) ? old : await this.#start(null, options.signal);
    const outcome = typeof leader === "string" ? notRun(leader) : await this.#call(leader, text, sink, options);
    // It ended between two calls, when there was nobody to tell.
    const isNew = old !== null && old !== leader && typeof leader !== "string";
    const ended = isNew ? `The ${this.#kind.name} session had ended. ${this.#said(leader)}` : null;
    return {
      output: this.#kind.clean(sink.text()),
      outputBytes: sink.totalBytes,
      truncated: sink.truncated,
      ...outcome,
      note: [ended, outcome.note].filter((each) => each !== null).join(" ") || null,
      ms: performance.now() - start,
    };
  }

  async #call(
    leader: Leader,
    text: string,
    sink: BoundedOutput,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<Outcome> {
    const nonce = newNonce();
    const request = attempt(() => this.#kind.request(text, nonce));
    if ("refusal" in request) return notRun(request.refusal);
    if (!writeOrDrop(this.#pipes.inputFd, request.value)) {
      // Only an agent that filled its own session's pipe gets here.
      const restarted = await this.#restart(leader, sink, signal);
      return { exitCode: null, timedOut: false, note: `The session did not listen. ${restarted}` };
    }
    const wait = await this.#wait([nonce], sink, { leader, ms: timeoutMs, signal });
    if (wait === "ended") throw await this.#gone();
    if (wait === "died") {
      const exitCode = exitCodeOf([String(leader.end.signal.reason)]);
      const restarted = await this.#restart(leader, sink, signal);
      return { exitCode, timedOut: false, note: `The ${this.#kind.name} session ended. ${restarted}` };
    }
    if (wait !== "late") return { exitCode: exitCodeOf(wait.words), timedOut: false, note: null };
    return this.#stop(leader, nonce, sink, { timeoutMs, signal });
  }

  /** The time is up: climbs the ladder until the session listens again. */
  async #stop(
    leader: Leader,
    nonce: string,
    sink: BoundedOutput,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<Outcome> {
    const resync = this.#kind.resync === null ? null : newNonce();
    if (resync !== null) writeOrDrop(this.#pipes.inputFd, this.#kind.resync?.(resync) ?? "");
    const late = `The time limit of ${timeoutMs} ms passed.`;
    let exitCode: number | null = null;
    let output: BoundedOutput | null = sink;
    for (const { signal: kill, target, said } of LADDER) {
      if (!this.#send(leader, kill, target)) continue;
      const waitFor = { leader, ms: LIMITS.sandboxLadderStepMs, signal };
      let wait = await this.#wait(resync === null ? [nonce] : [nonce, resync], output, waitFor);
      if (typeof wait === "object" && wait.nonce === nonce) {
        exitCode = exitCodeOf(wait.words);
        output = null; // what comes after the mark is not the command's
        if (resync !== null) wait = await this.#wait([resync], output, waitFor);
      }
      if (wait === "ended") throw await this.#gone();
      if (wait === "died") {
        const restarted = await this.#restart(leader, output, signal);
        return { exitCode, timedOut: true, note: `${late} ${said} ${restarted}` };
      }
      if (wait !== "late") return { exitCode, timedOut: true, note: `${late} ${said}` };
    }
    await this.#cell().kill("limit");
    throw await this.#gone();
  }

  /** False when there was nobody to send it to. */
  #send(leader: Leader, signal: "SIGINT" | "SIGKILL", target: "below" | "leader"): boolean {
    if (leader.process === null || !isMarkRunning(leader.process)) return false;
    const { pid } = leader.process;
    if (target === "leader") {
      signalProcess(pid, signal);
      return true;
    }
    const passes = signal === "SIGKILL" ? KILL_PASSES_MAX : 1;
    for (let pass = 0; pass < passes; pass += 1) {
      const below = descendantsOf(pid).filter(isRunning);
      if (below.length === 0) return pass > 0;
      // Children first: a parent that waits for them then ends by itself.
      for (const each of below.reverse()) signalProcess(each, signal);
    }
    return true;
  }

  async #wait(
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
    if (leader.process !== null && !isAlive(leader)) leader.end.abort(KILLED);
    return leader.end.signal.aborted ? "died" : "late";
  }

  /** Gives what is to be said of it. */
  async #restart(old: Leader, sink: BoundedOutput | null, signal: AbortSignal): Promise<string> {
    await this.#abandon(old);
    return this.#said(await this.#start(sink, signal));
  }

  /** Kills a session and sees it gone: two of them would share one pipe. One that has no pid yet takes all with it. */
  async #abandon(leader: Leader): Promise<void> {
    if (leader.process === null) return this.#cell().kill("closed");
    for (const target of ["below", "leader"] as const) this.#send(leader, "SIGKILL", target);
    for (let ms = 0; ms < LIMITS.sandboxKillMs && isMarkRunning(leader.process); ms += 1) await this.#clock.sleep(1);
    leader.end.abort(KILLED);
  }

  /** Starts a session; what the old one still had written goes to `sink`. Gives why it cannot be, when its files do not fit. */
  async #start(sink: BoundedOutput | null, signal: AbortSignal): Promise<Leader | string> {
    const prepared = attempt(() => this.#kind.prepare());
    if ("refusal" in prepared) return prepared.refusal;
    const [begin, hello] = [newNonce(), newNonce()];
    const leader: Leader = { begin, process: null, isWatched: false, end: new AbortController() };
    this.#leader = leader;
    this.#cell().tell(`${this.#kind.name} ${begin}`);
    const limits = { leader, ms: LIMITS.sandboxRestartMs, signal };
    const begun = await this.#wait([begin], sink, limits);
    writeOrDrop(this.#pipes.inputFd, this.#kind.hello(hello));
    const ready = typeof begun === "object" ? await this.#wait([hello], null, limits) : begun;
    if (ready === "ended") throw await this.#gone();
    if (typeof ready === "object") {
      const inner = Number(ready.words[0]);
      leader.process = markOf(descendantsOf(this.#cell().initPid).find((pid) => innerPidOf(pid) === inner) ?? 0);
    }
    if (leader.process !== null) return leader;
    // It cannot start: no process or memory left in the sandbox, or an agent that kills it at once.
    this.#leader = null;
    await this.#cell().kill("limit");
    throw new RolloutError("sandbox_limit", `the ${this.#kind.name} session of a sandbox could not be started again`);
  }

  /** Words about an attempt to start it anew. */
  #said(started: Leader | string): string {
    return typeof started === "string"
      ? `A new one could not be started: ${started}.`
      : `A new one was started: ${this.#kind.lost}`;
  }

  async #gone(): Promise<RolloutError> {
    const end = await this.#cell().ended;
    if (end === "limit")
      return new RolloutError("sandbox_limit", "the agent ended its own sandbox or ran into its limits");
    return new RolloutError("sandbox_lost", end === "closed" ? "the sandbox was closed" : "the sandbox was killed");
  }
}

function isAlive({ process, end }: Leader): boolean {
  return !end.signal.aborted && process !== null && isMarkRunning(process);
}

function notRun(why: string): Outcome {
  return { exitCode: null, timedOut: false, note: `It was not run: ${why}.` };
}

/** Writes to the sandbox's disk, which the agent may have filled: that is for the model to mend. */
function attempt<T>(write: () => T): { value: T } | { refusal: string } {
  try {
    return { value: write() };
  } catch (error) {
    if (error instanceof RolloutError && error.reason === "sandbox_limit") return { refusal: error.detail };
    throw error;
  }
}

/** Null for what is no exit code: the agent can write into the pipes that this comes from. */
function exitCodeOf(words: readonly string[]): number | null {
  const word = words[0] ?? "";
  return /^\d{1,3}$/.test(word) ? Number(word) : null;
}
