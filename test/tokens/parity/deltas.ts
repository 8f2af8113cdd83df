import type { LocalRenderer } from "../../../src/tokens/local-renderers.ts";
import type { Conversation } from "./conversations.ts";

/** The ids of the first assistant's turn as the template shows it, its closing token with them. */
export async function shownTurn(renderer: LocalRenderer, conversation: Conversation): Promise<Int32Array> {
  const { messages, tools } = conversation;
  const index = messages.findIndex(({ role }) => role === "assistant");
  const prompt = await renderer.renderPrompt(messages.slice(0, index), tools);
  const whole = await renderer.renderPrompt(messages, tools);
  const delta = await renderer.renderDelta(messages.slice(index + 1), tools, true);
  const differing = prompt.ids.findIndex((id, at) => whole.ids[at] !== id);
  return whole.ids.slice(differing < 0 ? prompt.ids.length : differing, whole.ids.length - delta.ids.length);
}

/** One step of a conversation built by a delta, against rendering all of it anew. */
export interface Step {
  /** How many ids at the end of the prompt the whole rendering has otherwise; 0 where it begins with the prompt. */
  rewritten: number;
  /** Whether the whole rendering ends with the delta, and has the assistant's turn before it. */
  isTail: boolean;
}

/**
 * Goes through a conversation as a job does: before each assistant's turn the prompt, then that turn as the template
 * shows it, then the delta of what follows. The ids must be those of the whole rendering.
 */
export async function deltaSteps(renderer: LocalRenderer, conversation: Conversation): Promise<Step[]> {
  const { messages, tools } = conversation;
  const steps: Step[] = [];
  for (const [index, message] of messages.entries()) {
    const next = messages.findIndex((later, at) => at > index && later.role === "assistant");
    const end = next < 0 ? messages.length : next;
    const added = messages.slice(index + 1, end);
    if (message.role !== "assistant" || added.length === 0 || added.some(({ role }) => role === "system")) continue;
    const prompt = await renderer.renderPrompt(messages.slice(0, index), tools);
    const whole = await renderer.renderPrompt(messages.slice(0, end), tools);
    const delta = await renderer.renderDelta(added, tools, true);
    // The delta of a cut turn brings the closing token: with it, it must reach back to the turn's own text.
    const closed = await renderer.renderDelta(added, tools, false);
    const isShifted =
      closed.ids.length !== delta.ids.length + 1 || !delta.ids.every((id, at) => closed.ids[at + 1] === id);
    const step = compare([...prompt.ids], [...whole.ids], [...closed.ids]);
    steps.push({ ...step, isTail: step.isTail && !isShifted });
  }
  return steps;
}

function compare(prompt: readonly number[], whole: readonly number[], delta: readonly number[]): Step {
  const differing = prompt.findIndex((id, at) => whole[at] !== id);
  const kept = differing < 0 ? prompt.length : differing;
  const tail = whole.slice(whole.length - delta.length);
  const isTail = delta.every((id, at) => tail[at] === id) && kept + delta.length <= whole.length;
  return { rewritten: prompt.length - kept, isTail };
}
