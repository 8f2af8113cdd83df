import type { Clock } from "../clock.ts";
import { newNonce } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import type { BoundedOutput } from "./bounded-output.ts";
import type { Cell } from "./cell.ts";
import { commandResult, exitCodeOf, notRun, type Outcome, outcome, outputSink, signalOf } from "./command-result.ts";
import type { CommandResult, LadderStep } from "./sandbox.ts";
import { type Leader, refusalOf, type SessionPipes, SessionProcess, type SessionStart } from "./session-process.ts";

/** What differs between the shell and the Python worker. */
export interface SessionKind extends SessionStart {
  /** Makes it run `text` and then answer with a mark `nonce EXIT_CODE` and words of its own. Throws sandbox_limit when the disk is full. */
  request(text: string, nonce: string): string;
  /** After an interrupt that swallows the request's own mark: a request whose mark shows that it listens again. */
  resync: ((nonce: string) => string) | null;
  /** Takes out of an output what the session itself wrote into it; null when it writes nothing. */
  readonly clean: ((output: string) => string) | null;
  /** What the words of a request's mark say of its end, and what it left beside its output. */
  read(words: readonly string[], nonce: string): Pick<CommandResult, "signal" | "figures" | "figuresLost">;
}

interface CallOptions {
  timeoutMs: number;
  signal: AbortSignal;
}

/** The gentlest first: a terminal's Ctrl-C for what the command started, then for the session itself, then the kill. */
const LADDER: readonly LadderStep[] = [
  { signal: "SIGINT", target: "below" },
  { signal: "SIGINT", target: "leader" },
  { signal: "SIGKILL", target: "below" },
  { signal: "SIGKILL", target: "leader" },
];

/** What the signal that ended a session means most often, for the model. */
const KILL_HINTS: Readonly<Record<string, string>> = {
  SIGKILL: ", as happens when memory runs out",
  SIGXCPU: ", as its processor time was used up",
};

/** A persistent interpreter in a sandbox: one call at a time, restarted when it dies, never waited for without bound. */
export class Session {
  readonly #kind: SessionKind;
  readonly #process: SessionProcess;

  constructor(kind: SessionKind, pipes: SessionPipes, cell: () => Cell, clock: Clock) {
    this.#kind = kind;
    this.#process = new SessionProcess(kind, pipes, cell, clock);
  }

  /** What the supervisor's words about this session go to. */
  get process(): SessionProcess {
    return this.#process;
  }

  /** Runs `text`. Throws the signal's reason on abort, and RolloutError when the sandbox is gone. */
  async run(text: string, options: CallOptions): Promise<CommandResult> {
    const startedMs = performance.now();
    using sink = outputSink();
    options.signal.throwIfAborted();
    const { leader, news } = await this.#process.ready(options.signal);
    const end = typeof leader === "string" ? notRun(leader) : await this.#call(leader, text, sink, options);
    return commandResult(sink, end, { news, startedMs, clean: this.#kind.clean });
  }

  async #call(leader: Leader, text: string, sink: BoundedOutput, options: CallOptions): Promise<Outcome> {
    const { timeoutMs, signal } = options;
    const nonce = newNonce();
    let request = "";
    const refusal = refusalOf(() => {
      request = this.#kind.request(text, nonce);
    });
    if (refusal !== null) return notRun(refusal);
    if (!this.#process.write(request)) {
      // Only an agent that filled its own session's pipe gets here.
      const restarted = await this.#process.restart(leader, sink, signal);
      return outcome({ note: `The session did not listen. ${restarted}` });
    }
    const wait = await this.#process.wait([nonce], sink, { leader, ms: timeoutMs, signal });
    if (wait === "ended") return this.#process.gone();
    if (wait === "died") return this.#died(leader, sink, signal);
    return wait === "late" ? this.#stop(leader, nonce, sink, options) : this.#ended(wait.words, nonce);
  }

  #ended(words: readonly string[], nonce: string): Outcome {
    return outcome({ exitCode: exitCodeOf(words), ...this.#kind.read(words, nonce) });
  }

  async #died(leader: Leader, sink: BoundedOutput, signal: AbortSignal): Promise<Outcome> {
    const exitCode = exitCodeOf([String(leader.end.signal.reason)]);
    const killedBy = signalOf(exitCode);
    const why = killedBy === null ? "ended" : `was killed by ${killedBy}${KILL_HINTS[killedBy] ?? ""}`;
    const restarted = await this.#process.restart(leader, sink, signal);
    const note = `The ${this.#kind.name} session ${why}. ${restarted}`;
    return outcome({ exitCode, signal: killedBy, note });
  }

  /** The time is up: climbs the ladder until the session listens again. */
  async #stop(leader: Leader, nonce: string, sink: BoundedOutput, options: CallOptions): Promise<Outcome> {
    const { timeoutMs, signal } = options;
    const resync = this.#kind.resync === null ? null : newNonce();
    if (resync !== null) this.#process.write(this.#kind.resync?.(resync) ?? "");
    const ladder: LadderStep[] = [];
    let end: Outcome | null = null;
    let output: BoundedOutput | null = sink;
    const late = (restarted: string) => {
      const note = [`The time limit of ${timeoutMs} ms passed.`, ...ladder.map(said), restarted].join(" ").trim();
      return { ...(end ?? outcome({})), timedOut: true, ladder, note };
    };
    for (const step of LADDER) {
      if (!this.#process.send(leader, step)) continue;
      ladder.push(step);
      const waitFor = { leader, ms: LIMITS.sandboxLadderStepMs, signal };
      let wait = await this.#process.wait(resync === null ? [nonce] : [nonce, resync], output, waitFor);
      if (typeof wait === "object" && wait.nonce === nonce) {
        end = this.#ended(wait.words, nonce);
        output = null; // what comes after the mark is not the command's
        if (resync !== null) wait = await this.#process.wait([resync], output, waitFor);
      }
      if (wait === "ended") return this.#process.gone();
      if (wait === "died") return late(await this.#process.restart(leader, output, signal));
      if (wait !== "late") return late("");
    }
    return this.#process.giveUp();
  }
}

/** A step in words for the model; the next one follows when it was not enough. */
function said({ signal, target }: LadderStep): string {
  if (signal === "SIGINT") {
    return target === "below"
      ? "What the command started was interrupted (SIGINT)."
      : "The session was interrupted (SIGINT).";
  }
  return target === "below"
    ? "It ignored the interrupt, so what it started was killed (SIGKILL)."
    : "It could not be stopped otherwise, so the session was killed (SIGKILL).";
}
