import type { Reason } from "../errors.ts";
import type { Message, ToolSchema } from "../trajectory/message.ts";
import type { Rendered } from "./renderer.ts";

/** What is known of a renderer without asking: sent once, when its folder was opened. */
export interface RendererFacts {
  tokenizerHash: string;
  templateHash: string;
  endIds: readonly number[];
  addedTokens: readonly (readonly [string, number])[];
}

/** What the main thread asks of the Worker; `folder` names the renderer. */
export type RenderCall =
  | { call: "open"; folder: string }
  | { call: "prompt"; folder: string; messages: readonly Message[]; tools: readonly ToolSchema[] }
  | {
      call: "delta";
      folder: string;
      added: readonly Message[];
      tools: readonly ToolSchema[];
      endedByModel: boolean;
    }
  | { call: "encode"; folder: string; text: string }
  | { call: "decode"; folder: string; ids: Int32Array; keepSpecial: boolean };

export type RenderRequest = RenderCall & { id: number };

export type RenderValue = RendererFacts | Rendered | Int32Array | string;

export type RenderReply =
  | { id: number; ok: true; value: RenderValue }
  | { id: number; ok: false; reason: Reason | null; detail: string };
