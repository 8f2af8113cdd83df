import { taskInvalid } from "../invalid.ts";

const TEXTS = ["task_id", "prompt", "entry_point", "test"] as const;

/** A HumanEval row as a native task of the `code` handler; the row's own fields are kept, the tests stay hidden. */
export function humanEvalTask(row: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const bad = TEXTS.filter((field) => typeof row[field] !== "string" || row[field] === "");
  if (bad.length > 0) {
    throw taskInvalid(
      "a HumanEval row",
      bad.map((path) => ({ path, message: "is not a text" })),
    );
  }
  const { task_id, prompt, test, ...rest } = row as Record<(typeof TEXTS)[number], string>;
  return {
    ...rest,
    id: task_id,
    handler: "code",
    prompt: `Complete this Python function. Give the whole function, with its imports, in one \`\`\`python block.\n\n\`\`\`python\n${prompt.trimEnd()}\n\`\`\``,
    starter_code: prompt,
    tests: [{ kind: "assert", code: test }],
  };
}
