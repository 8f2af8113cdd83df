import { describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { type InputFault, RequestError } from "../../src/errors.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { planSubmission } from "../../src/pipeline/submit.ts";
import { createRegistry } from "../../src/tasks/registry.ts";
import { DEFAULT_SAMPLING } from "../../src/trajectory/sampling.ts";

/** The faults of a submission of one task; throws when it is accepted. */
function faultsOf(task: Record<string, unknown>): readonly InputFault[] {
  const own = { priority: 0, stream: null, labels: {} };
  const request = { model: "m", sampling: DEFAULT_SAMPLING, limits: DEFAULT_LIMITS, ...own };
  const checks = { registry: createRegistry(systemClock), images: ["host"] };
  try {
    planSubmission({ tasks: [task], n: 1, request, idempotency: null }, checks);
  } catch (error) {
    if (error instanceof RequestError) return error.faults;
    throw error;
  }
  throw new Error("the task was accepted");
}

describe("planSubmission", () => {
  test("names an unknown limit of a task as the task wrote it", () => {
    const task = { id: "t", handler: "math", prompt: "p", answer: "1", limits: { turn_max: 3 } };
    expect(faultsOf(task)).toMatchObject([{ path: "tasks.0.limits.turn_max", message: "is not a known limit" }]);
  });
});
