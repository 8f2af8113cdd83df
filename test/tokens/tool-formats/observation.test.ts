import { describe, expect, test } from "bun:test";
import { createScriptedSource } from "../../../src/llm/engines/scripted-source.ts";
import { TemplateRenderer } from "../../../src/tokens/template-renderer.ts";
import { templateShowsTools, toolInstructions } from "../../../src/tokens/tool-formats/instructions.ts";
import { formatObservation, formatProblem } from "../../../src/tokens/tool-formats/observation.ts";

const tool = { name: "bash", description: "Runs a command.", parameters: { type: "object" } };

describe("formatObservation", () => {
  const seen = [
    { callId: "call_1", tool: "bash", output: "a" },
    { callId: "call_2", tool: "bash", output: "b" },
  ];
  test("makes one tool message for each call with hermes", () => {
    expect(formatObservation("hermes", seen)).toEqual([
      { role: "tool", content: "a", toolCallId: "call_1", name: "bash" },
      { role: "tool", content: "b", toolCallId: "call_2", name: "bash" },
    ]);
  });

  test("makes one user message with fenced and none with none", () => {
    expect(formatObservation("fenced", seen)).toEqual([{ role: "user", content: "a\nb" }]);
    expect(formatObservation("fenced", [])).toEqual([]);
    expect(formatObservation("none", seen)).toEqual([]);
  });
});

describe("formatProblem", () => {
  test("tells the problem as a user's message", () => {
    expect(formatProblem("no name")).toMatchObject({ role: "user", content: expect.stringContaining("no name") });
  });
});

describe("toolInstructions", () => {
  test("names every tool and the form of a call with hermes", () => {
    const text = toolInstructions("hermes", [tool]);
    expect(text).toContain('"name":"bash"');
    expect(text).toContain("<tool_call>");
  });

  test("names the blocks that are offered with fenced, and is empty where nothing can be called", () => {
    expect(toolInstructions("fenced", [tool])).toContain("```bash");
    expect(toolInstructions("fenced", [tool])).not.toContain("```python");
    expect(toolInstructions("none", [tool])).toBe("");
    expect(toolInstructions("hermes", [])).toBe("");
  });
});

describe("templateShowsTools", () => {
  test("is true for a template that renders them and false for one that does not", async () => {
    const source = createScriptedSource();
    const blind = { ...source, render: (messages: Parameters<typeof source.render>[0]) => source.render(messages, []) };
    expect(await templateShowsTools(new TemplateRenderer(source), [tool])).toBe(true);
    expect(await templateShowsTools(new TemplateRenderer(blind), [tool])).toBe(false);
  });
});
