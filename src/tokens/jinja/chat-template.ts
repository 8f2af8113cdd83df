import { Environment } from "@huggingface/jinja";
import { type Clock, systemClock } from "../../clock.ts";
import type { Json } from "./json.ts";
import { type Node, parseTemplate } from "./nodes.ts";
import { PythonInterpreter } from "./python-interpreter.ts";
import { pythonText } from "./python-text.ts";
import { PythonTypeError, TemplateRefusal } from "./refusal.ts";
import { strftime } from "./strftime.ts";
import { boolean, callable, fromJson, integer, list, NONE, text } from "./values.ts";

/** Longest list that a template's `range` makes; messages are at most a thousand. */
const RANGE_MAX = 100_000;

/** A chat template, rendered as Python's transformers renders it. */
export class ChatTemplate {
  readonly #program: Node;
  readonly #clock: Pick<Clock, "nowMs">;

  /** Throws when the template's syntax is not known here. */
  constructor(template: string, clock: Pick<Clock, "nowMs"> = systemClock) {
    this.#program = parseTemplate(template);
    this.#clock = clock;
  }

  /**
   * The text of the template with these variables. Throws TemplateRefusal or PythonTypeError where Python refuses
   * them too, and another error for what this engine does not know.
   */
  render(variables: ReadonlyMap<string, Json>): string {
    const scope = new Environment();
    for (const [name, value] of this.#globals()) scope.setVariable(name, value);
    for (const [name, value] of variables) scope.setVariable(name, fromJson(value));
    return pythonText(new PythonInterpreter(scope).evaluate(this.#program, scope));
  }

  #globals() {
    return [
      ["true", boolean(true)],
      ["True", boolean(true)],
      ["false", boolean(false)],
      ["False", boolean(false)],
      ["none", NONE],
      ["None", NONE],
      [
        "raise_exception",
        callable(([message]) => {
          throw new TemplateRefusal(message === undefined ? "" : pythonText(message));
        }),
      ],
      [
        "strftime_now",
        callable(([format]) =>
          text(strftime(new Date(this.#clock.nowMs()), format === undefined ? "" : pythonText(format))),
        ),
      ],
      ["range", callable((args) => list(range(args.map((value) => Number(value.value)))))],
    ] as const;
  }
}

function range(args: readonly number[]) {
  const [start, stop, step] = args.length === 1 ? [0, args[0] ?? 0, 1] : [args[0] ?? 0, args[1] ?? 0, args[2] ?? 1];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!(length <= RANGE_MAX)) throw new PythonTypeError(`range of ${length} is too long`);
  return Array.from({ length }, (_item, index) => integer(start + index * step));
}

/** Whether a template refused its messages, as it would in Python; any other error is this engine's own limit. */
export function isRefusal(error: unknown): boolean {
  return error instanceof TemplateRefusal || error instanceof PythonTypeError;
}
