import { taskInvalid } from "../invalid.ts";

/** A GSM8K row (`question`, `answer` with the number after `####`) as a native task. */
export function gsm8kTask(row: Readonly<Record<string, unknown>>, rowId: string): Record<string, unknown> {
  const { question, answer, id, ...rest } = row;
  if (typeof question !== "string") throw taskInvalid("a GSM8K row", [{ path: "question", message: "is not a text" }]);
  const marker = typeof answer === "string" ? answer.lastIndexOf("####") : -1;
  if (typeof answer !== "string" || marker < 0) {
    const accepted = "a worked solution that ends in `#### NUMBER`";
    throw taskInvalid("a GSM8K row", [{ path: "answer", message: "has no #### marker", accepted }]);
  }
  return {
    ...rest,
    id: typeof id === "string" ? id : `gsm8k/${rowId}`,
    handler: "math",
    prompt: question,
    answer: answer.slice(marker + 4).trim(),
  };
}
