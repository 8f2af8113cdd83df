import { z } from "zod";
import { invalid } from "../fault.ts";
import { CHAT_ENDPOINT } from "./chat-client.ts";
import { AssistantMessage } from "./chat-conversation.ts";

/** The chat API's wire shapes: only what is read is named, the rest is let through. */

const Answer = z.looseObject({
  choices: z
    .array(
      z.looseObject({
        message: AssistantMessage,
        finish_reason: z.string().nullish(),
        logprobs: z
          .looseObject({ content: z.array(z.looseObject({ token: z.string(), logprob: z.number() })).nullish() })
          .nullish(),
      }),
    )
    .min(1),
  usage: z
    .looseObject({ prompt_tokens_details: z.looseObject({ cached_tokens: z.int().nullish() }).nullish() })
    .nullish(),
});
export type ChatChoice = z.infer<typeof Answer>["choices"][number];

/** Answer of `GET /v1/models`; some servers tell the context, by either name. */
export const Models = z.looseObject({
  data: z
    .array(
      z.looseObject({
        id: z.string(),
        max_model_len: z.int().min(1).nullish(),
        context_length: z.int().min(1).nullish(),
      }),
    )
    .min(1),
});

/** The first choice of an answer, and how much of its prompt was cached. Throws RolloutError backend_invalid. */
export function parseAnswer(value: unknown): { choice: ChatChoice; cachedTokens: number | null } {
  const parsed = Answer.safeParse(value);
  const choice = parsed.data?.choices[0];
  if (choice === undefined) {
    const issue = parsed.error?.issues[0];
    throw invalid(
      `POST ${CHAT_ENDPOINT}`,
      `unexpected answer: ${issue?.path.join(".") ?? ""} ${issue?.message ?? "no choice"}`,
    );
  }
  return { choice, cachedTokens: parsed.data?.usage?.prompt_tokens_details?.cached_tokens ?? null };
}
