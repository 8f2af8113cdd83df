import type { Journal } from "../agent/agent.ts";
import { REASONS, type Reason } from "../errors.ts";
import type { Carry, Outcome } from "../job/job.ts";
import type { ModelSession } from "../llm/engine.ts";
import type { NetworkLog } from "../network-rule.ts";
import type { RunEnd, StoredTrajectory } from "../store/store.ts";
import { assemble } from "../trajectory/assemble.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import type { ToolResult, TurnRecord } from "../trajectory/turn.ts";
import { verify } from "../trajectory/verify.ts";
import { versionRange } from "../trajectory/versions.ts";
import type { LiveJob } from "./live-job.ts";
import type { StageParts } from "./stage-parts.ts";

/** Writes turns down as they come and keeps them until RUN ends. */
export class RunRecorder implements Journal {
  readonly #parts: StageParts;
  readonly live: LiveJob;
  readonly turns: TurnRecord[] = [];
  #startMs = 0;
  #llmMs = 0;
  #toolMs = 0;
  #session: ModelSession | null = null;
  #tools: readonly ToolSchema[] = [];
  #network: NetworkLog | null = null;

  constructor(parts: StageParts, live: LiveJob) {
    this.#parts = parts;
    this.live = live;
  }

  begin(session: ModelSession, tools: readonly ToolSchema[]): void {
    this.#session = session;
    this.#tools = tools;
    this.#network = this.live.sandbox?.networkLog ?? null;
    this.#startMs = this.#parts.clock.nowMs();
  }

  get hasBegun(): boolean {
    return this.#session !== null;
  }

  get runMs(): number {
    return this.#parts.clock.nowMs() - this.#startMs;
  }

  get timing() {
    return { runMs: this.runMs, llmMs: this.#llmMs, toolMs: this.#toolMs };
  }

  get tools(): readonly ToolSchema[] {
    return this.#tools;
  }

  /** Grows until the sandbox is closed. */
  get network(): NetworkLog | null {
    return this.#network;
  }

  /** As far as the records tell them. */
  get messages(): readonly Message[] {
    return this.turns.flatMap((turn) => [...turn.promptMessages, turn.message]);
  }

  get backendIds(): readonly string[] {
    return this.#session?.backendIds ?? [];
  }

  get model(): StoredTrajectory["model"] {
    if (this.#session === null) return null;
    const { renderer, logprobsMode } = this.#session;
    const { tokenizerHash, templateHash, kind } = renderer;
    return { tokenizerHash, templateHash, renderer: kind, logprobsMode };
  }

  /** Whether the records are what a model sampled, and not made from text. */
  get tokenExact(): boolean {
    return this.#session?.tokenExact ?? true;
  }

  async saveTurn(record: TurnRecord): Promise<void> {
    const { job, attemptId } = this.live.claimed;
    await this.#parts.store.saveTurn({ jobId: job.id, attemptId, record });
    this.turns.push(record);
    this.#llmMs += record.queueMs + record.generationMs;
    this.#parts.observer.turnEnded({
      model: job.model,
      promptTokens: record.promptIds.length,
      sampledTokens: record.sampledIds.length,
      ms: record.queueMs + record.generationMs,
    });
  }

  async saveToolResults(
    turn: number,
    results: readonly ToolResult[],
    files: readonly { name: string; bytes: Uint8Array }[],
  ): Promise<void> {
    const { job, attemptId } = this.live.claimed;
    for (const { tool, ms } of results) {
      this.#toolMs += ms;
      this.#parts.observer.toolEnded({ tool, ms });
    }
    await this.#parts.store.saveToolResults({ jobId: job.id, attemptId, turn, results, files });
  }
}

/** RUN's end as the store takes it: branches assembled and checked, the outcome without a reward. */
export function describeRun(recorder: RunRecorder, reason: Reason, carry: Carry, messages: readonly Message[]): RunEnd {
  const { job, attemptId } = recorder.live.claimed;
  const branches = assemble(recorder.turns);
  const { verdict } = verify(recorder.turns, branches);
  const versions = versionRange(recorder.turns);
  const sampledTokens = recorder.turns.reduce((sum, turn) => sum + turn.sampledIds.length, 0);
  const allTokens = branches.reduce((sum, branch) => sum + branch.tokenIds.length - branch.sharedTokens, 0);
  const outcome: Outcome = {
    status: REASONS[reason].status,
    endReason: reason,
    reward: null,
    rewards: {},
    trainable: false,
    grading: null,
    error: null,
    turns: recorder.turns.length,
    promptTokens: allTokens - sampledTokens,
    sampledTokens,
    policyVersionMin: versions.min,
    policyVersionMax: versions.max,
    ledger: recorder.tokenExact || verdict === "rejected" ? verdict : "text",
  };
  const { tools, network, model, timing, backendIds } = recorder;
  return { jobId: job.id, attemptId, carry, messages, tools, network, branches, model, outcome, timing, backendIds };
}
