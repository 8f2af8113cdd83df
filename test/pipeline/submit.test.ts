import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { type InputFault, RequestError } from "../../src/errors.ts";
import { DEFAULT_LIMITS, type LimitsMax } from "../../src/job/limits.ts";
import { planSubmission } from "../../src/pipeline/submit.ts";
import { createRegistry } from "../../src/tasks/registry.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";

/** The faults of a submission of one task; throws when it is accepted. */
function faultsOf(
  task: Record<string, unknown>,
  limitsMax: LimitsMax = {},
  onFault: "give" | "throw" = "give",
): readonly InputFault[] {
  const own = { tokenExact: true, priority: 0, stream: null, labels: {} };
  const request = { model: "m", sampling: DEFAULT_SAMPLING, limits: DEFAULT_LIMITS, ...own };
  const checks = { registry: createRegistry(systemClock), images: ["host"], limitsMax };
  try {
    planSubmission({ tasks: [task], n: 1, request, idempotency: null }, checks);
  } catch (error) {
    if (error instanceof RequestError && onFault === "give") return error.faults;
    throw error;
  }
  throw new Error("the task was accepted");
}

describe("planSubmission", () => {
  test("names an unknown limit of a task as the task wrote it", () => {
    const task = { id: "t", handler: "math", prompt: "p", answer: "1", limits: { turn_max: 3 } };
    expect(faultsOf(task)).toMatchObject([{ path: "tasks.0.limits.turn_max", message: "is not a known limit" }]);
  });

  test("says which range a limit of a task is out of", () => {
    const task = { id: "t", handler: "math", prompt: "p", answer: "1", limits: { turns_max: 0, pids_max: "many" } };
    expect(faultsOf(task)).toMatchObject([
      { path: "tasks.0.limits.turns_max", accepted: "integer from 1 to 500 (model calls of RUN)" },
      { path: "tasks.0.limits.pids_max", accepted: "integer from 8 to 32768 (processes and threads of the sandbox)" },
    ]);
  });

  test("refuses two tools that the model would be shown as one", () => {
    const task = {
      id: "t",
      handler: "command",
      prompt: "p",
      tools: ["bash", "bash_interactive"],
      eval: { command: ["true"] },
    };
    expect(faultsOf(task)).toEqual([
      {
        path: "tasks.0.tools",
        message: "names bash and bash_interactive, which the model is shown as one tool: choose one",
        accepted: "bash or bash_interactive",
      },
    ]);
  });

  test("names the server's maximum of a limit of the request that is above it", () => {
    const task = { id: "t", handler: "math", prompt: "p", answer: "1" };
    expect(faultsOf(task, { pidsMax: 8 })).toMatchObject([{ path: "limits.pids_max", accepted: "at most 8" }]);
  });

  test("names the server's maximum of a limit of a task that is above it", () => {
    const task = { id: "t", handler: "math", prompt: "p", answer: "1", limits: { pids_max: 300 } };
    expect(faultsOf(task, { pidsMax: 299, turnsMax: 500 })).toEqual([
      {
        path: "tasks.0.limits.pids_max",
        message: "is above this server's maximum of 299",
        accepted: "at most 299",
      },
    ]);
  });

  test("says for an unknown image which command would provide it", () => {
    const task = (image: string) => ({ id: "t", handler: "math", prompt: "p", answer: "1", image });
    const cases = [
      ["python", "`rolloutd image build python` makes it"],
      ["team/app:1", "`rolloutd image import team/app:1 ARCHIVE` or `rolloutd image build RECIPE --name team/app:1`"],
      ["No Name", "`rolloutd image import NAME ARCHIVE`"],
    ] as const;
    for (const [image, command] of cases) {
      expect(() => faultsOf(task(image), {}, "throw")).toThrow(command);
      expect(faultsOf(task(image))).toEqual([{ path: "tasks.0.image", message: "is unknown", accepted: "host" }]);
    }
  });
});
