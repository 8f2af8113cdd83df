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
  z.object({ error: z.object({ type: z.string(), message: z.string() }) }),
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
    await program.write(`${JSON.stringify(call)}\n`);
    const line = await program.readLine(signal);
    if (line === null) return await this.#died("candidate_died: it ended during the call");
    // The judge trusts only lines of this form; all else would be the candidate speaking to the judge's protocol.
    const reply = Reply.safeParse(parseJson(line));
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

function parseJson(line: string | null): unknown {
  try {
    return line === null ? null : JSON.parse(line);
  } catch {
    return null; // said to the caller as a value that fits no schema
  }
}
