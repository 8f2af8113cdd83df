import { z } from "zod";
import { type Clock, deadline } from "../../clock.ts";
import { RolloutError } from "../../errors.ts";
import { LIMITS } from "../../limits.ts";
import type { ProgramOptions, SandboxHost, SandboxProgram } from "../../sandbox/sandbox.ts";
import candidateSource from "./candidate.py" with { type: "text" };

export const SOLUTION_PATH = "/workspace/solution.py";
const RUNNER_PATH = "/opt/rolloutd/candidate.py";

/** What the candidate answered: passed on to the judge as it came, or the reason why there is nothing. */
export type CandidateReply = { line: string } | { stopped: string };

const Reply = z.union([
  z.object({ value: z.unknown(), args: z.array(z.unknown()).optional() }).refine((reply) => "value" in reply),
  z.object({ error: z.object({ type: z.string(), message: z.string(), args: z.array(z.unknown()).optional() }) }),
]);
const Loaded = z.object({ loaded: z.boolean(), error: z.object({ type: z.string(), message: z.string() }).optional() });

/**
 * The solution in its own sandbox, started at the first call and again after a call that had to be stopped. Time and
 * memory it uses up are outcomes of the test; only a sandbox that cannot be had rejects.
 */
export class Candidate implements AsyncDisposable {
  readonly #sandboxes: Pick<SandboxHost, "start">;
  readonly #options: ProgramOptions;
  readonly #clock: Clock;
  #program: SandboxProgram | null = null;
  #timeLeftMs: number;
  #stops = 0;

  constructor(sandboxes: Pick<SandboxHost, "start">, options: CandidateOptions, clock: Clock) {
    this.#sandboxes = sandboxes;
    this.#clock = clock;
    this.#timeLeftMs = options.timeMs;
    const encode = (text: string) => new TextEncoder().encode(text);
    this.#options = {
      image: options.image,
      limits: options.limits,
      argv: ["python3", RUNNER_PATH, SOLUTION_PATH],
      files: [
        { path: RUNNER_PATH, bytes: encode(candidateSource) },
        { path: SOLUTION_PATH, bytes: encode(options.solution) },
      ],
    };
  }

  async ask(call: unknown, signal: AbortSignal): Promise<CandidateReply> {
    if (this.#timeLeftMs <= 0) return { stopped: "candidate_timeout: the time for all tests is used up" };
    if (this.#stops >= LIMITS.candidateStopsMax) return { stopped: "candidate_timeout: stopped too often before" };
    const startMs = this.#clock.nowMs();
    const timer = deadline(this.#clock, Math.min(LIMITS.candidateCallMs, this.#timeLeftMs), signal, TIME_UP);
    try {
      return await this.#exchange(call, timer.signal);
    } catch (error) {
      await this.#stop();
      if (timer.signal.reason === TIME_UP) return { stopped: "candidate_timeout: the call took too long" };
      if (error instanceof RolloutError && error.reason === "sandbox_limit")
        return { stopped: `candidate_died: ${error.detail}` };
      throw error;
    } finally {
      this.#timeLeftMs -= this.#clock.nowMs() - startMs;
      await timer.release();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#program?.close();
    this.#program = null;
  }

  async #exchange(call: unknown, signal: AbortSignal): Promise<CandidateReply> {
    this.#program ??= await this.#sandboxes.start(this.#options, signal);
    const program = this.#program;
    if (!this.#isLoaded) {
      const loaded = Loaded.safeParse(parseJson(await program.readLine(signal)));
      if (!loaded.success) return await this.#died("candidate_died: it ended while it was loaded");
      if (!loaded.data.loaded)
        return await this.#died(`candidate_error: ${loaded.data.error?.type}: ${loaded.data.error?.message}`);
      this.#isLoaded = true;
    }
    await unlessAborted(program.write(`${JSON.stringify(call)}\n`), signal);
    const line = await program.readLine(signal);
    if (line === null) return await this.#died("candidate_died: it ended during the call");
    // The judge trusts only lines of this form; all else would be the candidate speaking to the judge's protocol.
    const reply = Reply.safeParse(isNestedDeeply(line) ? null : parseJson(line));
    return reply.success
      ? { line: JSON.stringify(reply.data) }
      : await this.#died("candidate_error: an unreadable answer");
  }

  #isLoaded = false;

  async #died(stopped: string): Promise<CandidateReply> {
    await this.#stop();
    return { stopped };
  }

  async #stop(): Promise<void> {
    this.#stops += 1;
    this.#isLoaded = false;
    await this.#program?.close();
    this.#program = null;
  }
}

export interface CandidateOptions {
  solution: string;
  image: string;
  limits: ProgramOptions["limits"];
  /** For all calls together. */
  timeMs: number;
}

const TIME_UP = new Error("candidate time is up");

/** A candidate that stops reading lets a write that is longer than its pipe wait for ever; closing it ends the write. */
async function unlessAborted(write: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    await Promise.race([write, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** More brackets than a value can have that candidate.py sent: three for each of its 64 levels, and the envelope. */
const BRACKETS_MAX = 250;

/**
 * Such a line is not parsed: printing it again would overflow our stack, and reading it the judge's, and the failure
 * would be blamed on the task. Brackets in strings count too, which only makes it stricter for 250 in a row.
 */
function isNestedDeeply(line: string): boolean {
  let depth = 0;
  for (let at = 0; at < line.length; at += 1) {
    const code = line.charCodeAt(at);
    if (code === 0x5b || code === 0x7b) depth += 1;
    else if (code === 0x5d || code === 0x7d) depth -= 1;
    if (depth > BRACKETS_MAX) return true;
  }
  return false;
}

function parseJson(line: string | null): unknown {
  try {
    return line === null ? null : JSON.parse(line);
  } catch {
    return null; // said to the caller as a value that fits no schema
  }
}
