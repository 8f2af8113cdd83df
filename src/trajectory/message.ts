/** Chat messages as the agent, the renderer and the trajectory share them. */

export interface ToolCall {
  /** `call_1`, counted over the whole job; the model's own where its family writes one. */
  id: string;
  name: string;
  /** The JSON text exactly as it was sampled: re-printing it would change what the next rendering shows. */
  arguments: string;
}

export interface Message {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  toolCalls?: readonly ToolCall[];
  /** Of a `tool` message: the call it answers, and the tool's name. */
  toolCallId?: string;
  name?: string;
  /** Text of the model's reasoning block; null or absent where the family has none. */
  reasoning?: string | null;
}

/** A tool as chat templates want it: `{type: "function", function: {name, description, parameters}}`. */
export interface ToolSchema {
  name: string;
  description: string;
  /** JSON Schema of the arguments, an object. */
  parameters: Readonly<Record<string, unknown>>;
  /** The schema's JSON as it was given: templates show its numbers and its order, which `parameters` cannot hold. */
  parametersText?: string;
}
