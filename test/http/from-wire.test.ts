import { describe, expect, test } from "bun:test";
import { RequestError } from "../../src/errors.ts";
import { toJobRequest } from "../../src/http/from-wire.ts";
import { SubmitWire } from "../../src/http/schemas.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";

function modelOf(models: readonly string[], model?: string): string {
  const wire = SubmitWire.parse({ task: { id: "t", handler: "math", prompt: "p", answer: "1" }, model });
  return toJobRequest(wire, { models, limits: DEFAULT_LIMITS }).model;
}

describe("toJobRequest", () => {
  test("takes the model that is named, else the only one there is, else `policy`", () => {
    expect(modelOf(["a", "b"], "c")).toBe("c");
    expect(modelOf(["a"])).toBe("a");
    expect(modelOf([])).toBe("policy");
    expect(modelOf(["a", "policy"])).toBe("policy");
  });

  test("asks for a name where there are several models, and tells them", () => {
    const refused = (() => {
      try {
        return modelOf(["a", "b"]);
      } catch (error) {
        return error;
      }
    })();
    expect(refused).toBeInstanceOf(RequestError);
    expect(refused).toMatchObject({ faults: [{ path: "model", message: "is missing", accepted: "a, b" }] });
  });
});
