import { REASONS, type Reason, RolloutError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import type { ModelSession, SessionCompletion } from "../llm/engine.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import type { Rendered } from "../tokens/renderer.ts";
import { formatObservation, formatProblem } from "../tokens/tool-formats/observation.ts";
import { type ParsedTurn, parseTurn, type ToolFormat } from "../tokens/tool-formats/parse.ts";
import { recogniseToolFormat } from "../tokens/tool-formats/recognise.ts";
import { type Attachment, AttachmentBudget, Attachments } from "../tools/attachments.ts";
import type { Toolbox } from "../tools/toolbox.ts";
import { concat, Ledger, type TurnPlan } from "../trajectory/ledger.ts";
import type { Message } from "../trajectory/message.ts";
import type { Sampling } from "../trajectory/sampling.ts";
import type { ToolResult, TurnRecord } from "../trajectory/turn.ts";
import type { AgentEnd } from "./agent-end.ts";
import { type Budget, nextTurn } from "./budget.ts";
import { promptMessages } from "./prompts.ts";

/** Where turns go before anything follows from them; both resolve when they are durable. */
export interface Journal {
  saveTurn(record: TurnRecord): Promise<void>;
  saveToolResults(turn: number, results: readonly ToolResult[], files: readonly Attachment[]): Promise<void>;
}

export interface AgentParts {
  session: ModelSession;
  toolbox: Toolbox;
  sandbox: Sandbox | null;
  journal: Journal;
}

export interface AgentTask {
  messages: readonly Message[];
  /** `auto` is the form that the model's chat template writes calls in. */
  format: ToolFormat | "auto";
  sampling: Sampling;
  /** The context's bound is the session's, asked for each turn: a backend that takes over may have another. */
  budget: Omit<Budget, "contextTokensMax">;
  toolMs: number;
  outputChars: number;
}

/**
 * The agent: sample a turn, write it down, run what it asked for, show it the answers, until it answers or a bound
 * ends it. Infrastructure failures and cancellation reject; everything the model does is a value. When `signal`
 * aborts for a reason that is the policy's (`run_timeout`) the agent ends as truncated with what it has.
 */
export async function runAgent(parts: AgentParts, task: AgentTask, signal: AbortSignal): Promise<AgentEnd> {
  const agent = new Agent(parts, task, signal);
  try {
    return await agent.run();
  } catch (error) {
    const cause: unknown = signal.aborted ? signal.reason : error;
    if (cause instanceof RolloutError && isPolicyEnd(cause.reason)) return agent.end(cause.reason);
    throw cause;
  }
}

/** What went to the engine for one turn. */
interface Sent extends TurnPlan {
  /** What was rendered for this turn: the ids from `contextStart` on. */
  prompt: Rendered;
  messages: readonly Message[];
  sampling: Sampling;
}

class Agent {
  readonly #parts: AgentParts;
  readonly #task: AgentTask;
  readonly #signal: AbortSignal;
  readonly #ledger = new Ledger();
  readonly #budgetOfFiles = new AttachmentBudget();
  #format: ToolFormat = "none";
  #messages: Message[] = [];
  #sampledTokens = 0;
  #calls = 0;
  #formatErrors = 0;
  #repeats = 0;
  #answer: string | null = null;

  constructor(parts: AgentParts, task: AgentTask, signal: AbortSignal) {
    this.#parts = parts;
    this.#task = task;
    this.#signal = signal;
  }

  async run(): Promise<AgentEnd> {
    const { session, toolbox } = this.#parts;
    const { messages: given, format } = this.#task;
    this.#format = format === "auto" ? await recogniseToolFormat(session.renderer) : format;
    let messages = await promptMessages(given, this.#format, toolbox.schemas, session.renderer);
    this.#messages = [...messages];
    let prompt = await session.renderer.renderPrompt(this.#messages, toolbox.schemas);
    for (;;) {
      const ids = concat(this.#ledger.context, prompt.ids);
      const room = nextTurn(this.#budget(), this.#spent(), ids.length, this.#task.sampling);
      if (typeof room === "string") return this.end(room);
      const sampling = { ...this.#task.sampling, maxTokens: room.maxTokens };
      const completion = await session.complete(ids, sampling, this.#signal);
      const parsed = await this.#parse(completion);
      const record = this.#record({ ...this.#ledger.plan(ids), prompt, messages, sampling }, completion, parsed);
      await this.#parts.journal.saveTurn(record);

      if (parsed.kind === "answer") return this.end(completion.finishReason === "length" ? room.cutBy : "answered");
      const next = parsed.kind === "calls" ? await this.#act(record, parsed) : this.#complain(parsed.problem);
      if (typeof next === "string") return this.end(next);
      messages = next;
      prompt = await this.#renderDelta(next, completion);
    }
  }

  end(reason: AgentEnd["reason"]): AgentEnd {
    return { reason, answer: this.#answer, messages: this.#messages };
  }

  async #parse(completion: SessionCompletion): Promise<ParsedTurn> {
    const { session, toolbox } = this.#parts;
    const { renderer } = session;
    const text = await renderer.decode(completion.ids, false);
    const nextCallNumber = this.#calls + 1;
    return parseTurn(this.#format, { ids: completion.ids, text, renderer, nextCallNumber, tools: toolbox.schemas });
  }

  /** Adds the assistant's message and closes the turn in the ledger. */
  #record(sent: Sent, completion: SessionCompletion, parsed: ParsedTurn): TurnRecord {
    const message: Message = {
      role: "assistant",
      content: parsed.content,
      ...(parsed.kind === "calls" ? { toolCalls: parsed.calls } : {}),
      reasoning: parsed.kind === "malformed" ? null : parsed.reasoning,
    };
    const previous = this.#messages.findLast((earlier) => earlier.role === "assistant");
    this.#repeats = this.#ledger.turns > 0 && sameMessage(previous, message) ? this.#repeats + 1 : 0;
    this.#messages.push(message);
    this.#answer = parsed.content;
    this.#sampledTokens += completion.ids.length;
    return this.#ledger.add(sent, {
      promptContent: sent.prompt.content,
      promptMessage: sent.prompt.message,
      promptMessages: sent.messages,
      sampledIds: completion.ids,
      logprobs: completion.logprobs,
      versions: completion.versions,
      sampling: sent.sampling,
      finishReason: completion.finishReason,
      stopReason: completion.stopReason,
      messageIndex: this.#messages.length - 1,
      message,
      parse: parsed.kind === "calls" ? "ok" : parsed.kind === "malformed" ? "malformed" : "none",
      backendId: completion.backendId,
      requestId: completion.requestId,
      endpoint: completion.endpoint,
      cachedTokens: completion.cachedTokens,
      queueMs: completion.queueMs,
      firstTokenMs: completion.firstTokenMs,
      generationMs: completion.generationMs,
    });
  }

  /** Runs the calls in the order asked: the messages with their answers, or why the job ends here. */
  async #act(
    record: TurnRecord,
    parsed: ParsedTurn & { kind: "calls" },
  ): Promise<readonly Message[] | AgentEnd["reason"]> {
    this.#formatErrors = 0;
    if (this.#repeats >= LIMITS.repeatedTurnsMax) return "repetition";
    const { toolbox, sandbox, journal } = this.#parts;
    const results: ToolResult[] = [];
    const files: Attachment[] = [];
    let final: string | null = null;
    for (const call of parsed.calls) {
      this.#signal.throwIfAborted();
      const startMs = performance.now();
      const attachments = new Attachments(this.#budgetOfFiles, { turn: record.index, call: results.length + 1 });
      const { toolMs, outputChars } = this.#task;
      const context = { sandbox, toolMs, outputChars, attachments, signal: this.#signal };
      const answer = await toolbox.call(call.name, call.arguments, context);
      const { output, exitCode, signal, timedOut, truncated } = answer;
      files.push(...answer.attachments);
      results.push({
        callId: call.id,
        tool: call.name,
        output,
        exitCode,
        signal,
        timedOut,
        truncated,
        artifacts: answer.attachments.map((file) => file.name),
        ms: Math.round(performance.now() - startMs),
      });
      if (answer.final === undefined) continue;
      final = answer.final;
      break;
    }
    this.#calls += parsed.calls.length;
    await journal.saveToolResults(record.index, results, files);
    if (final === null) return formatObservation(this.#format, results);
    this.#answer = final;
    return "answered";
  }

  /** A reply that is no well-formed call is told so, a bounded number of times in a row. */
  #complain(problem: string): readonly Message[] | AgentEnd["reason"] {
    this.#formatErrors += 1;
    return this.#formatErrors >= LIMITS.formatErrorsMax ? "format_errors" : [formatProblem(problem)];
  }

  async #renderDelta(added: readonly Message[], completion: SessionCompletion): Promise<Rendered> {
    const { renderer } = this.#parts.session;
    const first = this.#messages.length;
    this.#messages.push(...added);
    const endedByModel = completion.finishReason === "stop" && renderer.endIds.includes(completion.ids.at(-1) ?? -1);
    const delta = await renderer.renderDelta(added, this.#parts.toolbox.schemas, endedByModel);
    return { ...delta, message: delta.message.map((index) => (index < 0 ? -1 : first + index)) };
  }

  /** The context is that of the backend of the moment: a job may have moved to one with less. */
  #budget(): Budget {
    const { budget } = this.#task;
    return {
      ...budget,
      contextTokensMax: this.#parts.session.contextTokensMax,
    };
  }

  #spent() {
    return { turns: this.#ledger.turns, sampledTokens: this.#sampledTokens };
  }
}

/** Whether work that was stopped for this reason is an end of the agent, graded as it stands. */
function isPolicyEnd(reason: Reason): reason is AgentEnd["reason"] {
  return REASONS[reason].blame === "policy" && REASONS[reason].graded;
}

function sameMessage(left: Message | undefined, right: Message): boolean {
  return (
    left !== undefined &&
    left.content === right.content &&
    JSON.stringify(left.toolCalls?.map(bare)) === JSON.stringify(right.toolCalls?.map(bare))
  );
}

function bare(call: { name: string; arguments: string }): string[] {
  return [call.name, call.arguments];
}
