import type { Message } from "../trajectory/message.ts";
import { sentinelOf } from "./attribution.ts";
import { isRefusal } from "./jinja/chat-template.ts";
import type { TemplateHabits } from "./template-input.ts";

type Render = (messages: readonly Message[], habits: TemplateHabits) => string;

const NAME = "probe";
const ARGUMENT = sentinelOf(2_000_000);

/** A round of one tool: what templates differ in most. */
const ROUND: readonly Message[] = [
  { role: "user", content: "a" },
  {
    role: "assistant",
    content: "",
    toolCalls: [{ id: "call_1", name: NAME, arguments: JSON.stringify({ a: ARGUMENT }) }],
  },
  { role: "tool", content: "b", toolCallId: "call_1", name: NAME },
];

/**
 * How a template wants its messages: the first way in which it shows a call and its answer, else the first that it
 * does not refuse. One that refuses all has no role for tools. Throws what is no refusal.
 */
export function findHabits(render: Render): TemplateHabits {
  let accepted: TemplateHabits | null = null;
  for (const callIds of ["any", "nine"] as const) {
    for (const argumentsAs of ["object", "text"] as const) {
      const habits: TemplateHabits = { knowsTools: true, callIds, argumentsAs };
      const shown = attempt(() => render(ROUND, habits));
      if (shown?.includes(ARGUMENT)) return habits;
      if (shown !== null) accepted ??= habits;
    }
  }
  return accepted ?? { callIds: "any", argumentsAs: "object", knowsTools: false };
}

function attempt(render: () => string): string | null {
  try {
    return render();
  } catch (error) {
    if (isRefusal(error)) return null;
    throw error;
  }
}
