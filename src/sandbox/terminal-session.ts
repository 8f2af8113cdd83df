import type { Clock } from "../clock.ts";
import { newNonce } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import type { BoundedOutput } from "./bounded-output.ts";
import type { Cell } from "./cell.ts";
import { commandResult, exitCodeOf, notRun, type Outcome, outcome, outputSink, signalOf } from "./command-result.ts";
import { isInForeground } from "./process-tree.ts";
import type { TerminalInput, TerminalKey, TerminalResult } from "./sandbox.ts";
import { type Leader, refusalOf, type SessionPipes, SessionProcess } from "./session-process.ts";
import type { TerminalKind, TerminalMarks } from "./terminal.ts";

interface CallOptions {
  timeoutMs: number;
  signal: AbortSignal;
}

/** What a terminal's line discipline takes for its keys. */
const KEYS: Readonly<Record<TerminalKey, string>> = { "C-c": "\x03", "C-d": "\x04", "C-z": "\x1a" };

/** How long a command may be silent, before its first output of a call and after it, ms. */
interface Silence {
  beforeMs: number;
  afterMs: number;
}
const SILENCE = {
  command: { beforeMs: LIMITS.terminalQuietMs, afterMs: LIMITS.terminalQuietMs },
  typed: { beforeMs: LIMITS.terminalTypedMs, afterMs: LIMITS.terminalAnswerMs },
  more: { beforeMs: LIMITS.terminalQuietMs, afterMs: LIMITS.terminalAnswerMs },
} as const;

const AT_PROMPT = "Nothing is running in the terminal: give a command.";
const HOW_ON =
  "An empty command shows more of its output, is_input types a line into it, and C-c with is_input interrupts it.";

/**
 * A persistent bash on a pseudo-terminal. A command that is silent for long or runs past the time limit is left running:
 * the answer holds what it wrote so far, and the next calls type into it, interrupt it or ask for more. Nothing is
 * read between calls, so a command that floods the terminal is stopped by the kernel until somebody asks.
 */
export class TerminalSession {
  readonly #kind: TerminalKind;
  readonly #process: SessionProcess;
  /** Marks of the command that runs; null at the prompt. */
  #running: TerminalMarks | null = null;

  constructor(kind: TerminalKind, pipes: SessionPipes, cell: () => Cell, clock: Clock) {
    this.#kind = kind;
    this.#process = new SessionProcess(kind, pipes, cell, clock);
  }

  /** What the supervisor's words about this session go to. */
  get process(): SessionProcess {
    return this.#process;
  }

  /** Types. Throws the signal's reason on abort, and RolloutError when the sandbox is gone. */
  async type(typed: TerminalInput, options: CallOptions): Promise<TerminalResult> {
    const startedMs = performance.now();
    using sink = outputSink();
    options.signal.throwIfAborted();
    const { leader, news } = await this.#process.ready(options.signal);
    if (news !== null) this.#running = null;
    const end = typeof leader === "string" ? notRun(leader) : await this.#act(leader, typed, sink, options);
    const result = commandResult(sink, end, { news, startedMs, clean: null });
    return { ...result, running: this.#running !== null };
  }

  async #act(leader: Leader, typed: TerminalInput, sink: BoundedOutput, options: CallOptions): Promise<Outcome> {
    if (typed.kind === "command") {
      if (this.#running !== null) return notRun(`a command still runs. ${HOW_ON}`);
      return this.#command(leader, typed.text, sink, options);
    }
    const marks = this.#running;
    if (marks === null) return outcome({ note: AT_PROMPT });
    const text = typed.kind === "line" ? `${typed.text}\n` : typed.kind === "key" ? KEYS[typed.key] : "";
    if (Buffer.byteLength(text) > LIMITS.terminalInputBytesMax) {
      return notRun(`a terminal takes ${LIMITS.terminalInputBytesMax} bytes in a line; write the text to a file`);
    }
    if (text !== "" && !this.#process.write(text)) return outcome({ note: "The program reads none of its input." });
    const silence = typed.kind === "more" ? SILENCE.more : SILENCE.typed;
    const end = await this.#follow(leader, marks, sink, { ...options, silence });
    const isLost = this.#running !== null && typed.kind === "key" && typed.key === "C-c";
    return isLost && isInForeground(leader.process) ? this.#ask(leader, sink, options) : end;
  }

  async #command(leader: Leader, text: string, sink: BoundedOutput, options: CallOptions): Promise<Outcome> {
    const marks = { begun: newNonce(), ended: newNonce(), prompt: newNonce() };
    let line = "";
    const refusal = refusalOf(() => {
      line = this.#kind.line(text, marks);
    });
    if (refusal !== null) return notRun(refusal);
    const isTaken = this.#process.write(line);
    // What stands before the first mark is an echo, or was written by a background job: not this command's.
    const limits = { leader, ms: LIMITS.sandboxRestartMs, signal: options.signal };
    const begun = isTaken ? await this.#process.wait([marks.begun], null, limits) : "late";
    if (begun === "ended") return this.#process.gone();
    if (typeof begun !== "object") {
      const restarted = await this.#process.restart(leader, null, options.signal);
      return outcome({ note: `It was not run: the terminal did not listen. ${restarted}` });
    }
    this.#running = marks;
    return this.#follow(leader, marks, sink, { ...options, silence: SILENCE.command });
  }

  /** Reads until the command ends, is silent for long, or the time is over. */
  async #follow(
    leader: Leader,
    { ended, prompt }: TerminalMarks,
    sink: BoundedOutput,
    { timeoutMs, silence, signal }: CallOptions & { silence: Silence },
  ): Promise<Outcome> {
    const startedMs = performance.now();
    let [lastMs, seen] = [startedMs, 0];
    for (;;) {
      const endMs = Math.min(startedMs + timeoutMs, lastMs + (seen === 0 ? silence.beforeMs : silence.afterMs));
      const ms = Math.max(0, Math.min(LIMITS.terminalLookMs, endMs - performance.now()));
      const wait = await this.#process.wait([ended, prompt], sink, { leader, ms, signal });
      if (wait === "ended") return this.#process.gone();
      if (wait === "died") return this.#died(leader, sink, signal);
      if (wait !== "late") return this.#over(wait.words);
      this.#process.flush(sink);
      const nowMs = performance.now();
      if (sink.totalBytes > seen) [lastMs, seen] = [nowMs, sink.totalBytes];
      const timedOut = nowMs - startedMs >= timeoutMs;
      const silentMs = seen === 0 ? silence.beforeMs : silence.afterMs;
      if (!timedOut && nowMs - lastMs < silentMs) continue;
      const why = timedOut ? `after ${timeoutMs} ms` : `and has been silent for ${silentMs} ms`;
      return outcome({ timedOut, note: `The command still runs ${why}. ${HOW_ON}` });
    }
  }

  #over(words: readonly string[]): Outcome {
    this.#running = null;
    const exitCode = exitCodeOf(words);
    return outcome({ exitCode, signal: signalOf(exitCode) });
  }

  async #died(leader: Leader, sink: BoundedOutput, signal: AbortSignal): Promise<Outcome> {
    this.#running = null;
    const exitCode = exitCodeOf([String(leader.end.signal.reason)]);
    const restarted = await this.#process.restart(leader, sink, signal);
    return outcome({ exitCode, signal: signalOf(exitCode), note: `The terminal session ended. ${restarted}` });
  }

  /** The interrupt brought bash back, but the command had taken away what tells of it: asks, as nobody else reads the line. */
  async #ask(leader: Leader, sink: BoundedOutput, { signal }: CallOptions): Promise<Outcome> {
    const nonce = newNonce();
    this.#process.write(this.#kind.ask(nonce));
    const wait = await this.#process.wait([nonce], sink, { leader, ms: LIMITS.sandboxLadderStepMs, signal });
    if (wait === "ended") return this.#process.gone();
    if (wait === "died") return this.#died(leader, sink, signal);
    return wait === "late" ? outcome({ note: `The command still runs. ${HOW_ON}` }) : this.#over(wait.words);
  }
}
