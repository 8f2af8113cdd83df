import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { RequestError } from "../../src/errors.ts";
import { createRegistry } from "../../src/tasks/registry.ts";

const registry = createRegistry(systemClock);

function faultsOf(raw: unknown): { reason: string; faults: { path: string; message: string }[] } {
  try {
    registry.parse(raw);
  } catch (error) {
    if (error instanceof RequestError) return { reason: error.reason, faults: [...error.faults] };
    throw error;
  }
  throw new Error("the row was accepted");
}

describe("Registry.parse", () => {
  test("refuses a network rule that is none, and names it", () => {
    const task = { id: "t", handler: "math", prompt: "p", answer: "1" };
    expect(registry.parse({ ...task, network: { allow: [] } }).task.id).toBe("t");
    expect(registry.parse({ ...task, network: { allow: ["*.example.org:443"] } }).task.id).toBe("t");
    const { faults } = faultsOf({ ...task, network: { allow: ["a.example.org:443", "example.org"] } });
    expect(faults).toMatchObject([
      { path: "network.allow.1", message: expect.stringMatching(/^is no rule; accepted: host:port/) },
    ]);
  });

  test("takes a GSM8K row as it is", () => {
    const { task, handler } = registry.parse({ question: "q?", answer: "1 + 1 = <<1+1=2>>2\n#### 1,002" });
    expect(handler.name).toBe("math");
    expect(task).toMatchObject({ prompt: "q?", answer: "1,002" });
    expect(task.id).toMatch(/^gsm8k\/[0-9a-f]{12}$/);
  });

  test("gives equal rows equal ids and other rows others", () => {
    const id = (question: string) => registry.parse({ question, answer: "#### 1" }).task.id;
    expect(id("a")).toBe(id("a"));
    expect(id("a")).not.toBe(id("b"));
  });

  test("takes a HumanEval row as it is and keeps the tests out of the prompt", () => {
    const row = {
      task_id: "HumanEval/0",
      prompt: "def f(x):\n",
      entry_point: "f",
      canonical_solution: "    return x\n",
      test: "def check(candidate):\n    assert candidate(1) == 1\n",
    };
    const { task, handler } = registry.parse(row);
    expect(handler.name).toBe("code");
    expect(task).toMatchObject({ id: "HumanEval/0", entry_point: "f" });
    expect(JSON.stringify(handler.setup(task).messages)).not.toContain("candidate");
  });

  test("keeps a task's own unknown fields", () => {
    const { task } = registry.parse({ id: "t", handler: "math", prompt: "p", answer: 1, difficulty: "hard" });
    expect(task.difficulty).toBe("hard");
  });

  test.each([
    ["a number", 5, "task_invalid", ""],
    ["null", null, "task_invalid", ""],
    ["a list", [], "task_invalid", ""],
    ["no known form", { text: "x" }, "task_invalid", "handler"],
    ["a GSM8K row without its answer", { question: "q" }, "task_invalid", "answer"],
    ["a GSM8K row without a marker", { question: "q", answer: "18" }, "task_invalid", "answer"],
    ["a HumanEval row without tests", { task_id: "x", prompt: "p", entry_point: "f" }, "task_invalid", "test"],
    [
      "a HumanEval row with a number as test",
      { task_id: "x", prompt: "p", entry_point: "f", test: 3 },
      "task_invalid",
      "test",
    ],
    ["an unknown handler", { id: "t", handler: "mathh", prompt: "p" }, "handler_unknown", "handler"],
    ["no prompt", { id: "t", handler: "math", answer: "1" }, "task_invalid", "prompt"],
    [
      "both prompt and messages",
      { id: "t", handler: "math", prompt: "p", messages: [{ role: "user", content: "" }], answer: "1" },
      "task_invalid",
      "prompt",
    ],
    ["no id", { handler: "math", prompt: "p", answer: "1" }, "task_invalid", "id"],
    ["an empty id", { id: "", handler: "math", prompt: "p", answer: "1" }, "task_invalid", "id"],
    ["a prompt of the wrong type", { id: "t", handler: "math", prompt: 7, answer: "1" }, "task_invalid", "prompt"],
    [
      "a message of an unknown role",
      { id: "t", handler: "math", messages: [{ role: "robot", content: "" }], answer: "1" },
      "task_invalid",
      "messages.0.role",
    ],
    [
      "a message with an unknown field",
      { id: "t", handler: "math", messages: [{ role: "user", content: "", x: 1 }], answer: "1" },
      "task_invalid",
      "messages.0.x",
    ],
    [
      "an answer that is no number",
      { id: "t", handler: "math", prompt: "p", answer: "many" },
      "task_invalid",
      "answer",
    ],
    [
      "an unknown tool format",
      { id: "t", handler: "math", prompt: "p", answer: "1", tool_format: "xml" },
      "task_invalid",
      "tool_format",
    ],
    [
      "a relative file path",
      { id: "t", handler: "math", prompt: "p", answer: "1", files: [{ path: "a", text: "" }] },
      "task_invalid",
      "files.0.path",
    ],
    [
      "a file without content",
      { id: "t", handler: "math", prompt: "p", answer: "1", files: [{ path: "/a" }] },
      "task_invalid",
      "files.0",
    ],
    ["code without tests", { id: "t", handler: "code", prompt: "p" }, "task_invalid", "tests"],
    [
      "a test of an unknown kind",
      { id: "t", handler: "code", prompt: "p", tests: [{ kind: "unit" }] },
      "task_invalid",
      "tests.0.kind",
    ],
    [
      "a credit that is none",
      { id: "t", handler: "code", prompt: "p", tests: [{ kind: "assert", code: "assert 1" }], credit: "half" },
      "task_invalid",
      "credit",
    ],
    ["a command task without a grader", { id: "t", handler: "command", prompt: "p" }, "task_invalid", "eval"],
    [
      "a grader without a command",
      { id: "t", handler: "command", prompt: "p", eval: { command: [] } },
      "task_invalid",
      "eval.command",
    ],
    [
      "an artifact with a relative path",
      { id: "t", handler: "command", prompt: "p", eval: { command: ["x"] }, artifacts: ["a"] },
      "task_invalid",
      "artifacts",
    ],
  ])("refuses %s and names the field", (_what, raw, reason, path) => {
    const refused = faultsOf(raw);
    expect(refused.reason).toBe(reason);
    expect(refused.faults[0]?.path).toBe(path);
    expect(refused.faults[0]?.message.length).toBeGreaterThan(3);
  });
});
