import { describe, expect, test } from "bun:test";
import { RolloutError } from "../../src/errors.ts";
import { faultOfStatus, faultOfThrown } from "../../src/llm/fault.ts";
import badJson from "../fixtures/llm/llamacpp_err_bad_json.json";
import tooLongLlama from "../fixtures/llm/llamacpp_err_too_long.json";
import badModel from "../fixtures/llm/vllm_completions_bad_model.json";
import badToken from "../fixtures/llm/vllm_completions_bad_token.json";
import tooLongVllm from "../fixtures/llm/vllm_completions_too_long.json";

const recorded = (transcript: { response: { status: number; json: unknown } }) =>
  faultOfStatus(transcript.response.status, JSON.stringify(transcript.response.json), "POST /x");

describe("faultOfStatus", () => {
  test.each([
    ["vLLM's prompt beyond the context", tooLongVllm, "context_overflow"],
    ["llama.cpp's prompt beyond the context", tooLongLlama, "context_overflow"],
    ["vLLM's unknown model", badModel, "backend_invalid"],
    ["vLLM's unknown token", badToken, "backend_invalid"],
    ["llama.cpp's wrong field", badJson, "backend_invalid"],
  ] as const)("reads the recorded answer to %s", (_what, transcript, reason) => {
    expect(recorded(transcript).reason).toBe(reason);
  });

  test.each([
    [500, "Out of range float values are not JSON compliant: nan", "backend_invalid"],
    [500, "EngineCore encountered an issue", "backend_invalid"],
    [400, "The prompt (length 9000) is longer than the maximum model length of 2048", "context_overflow"],
    [400, "Input length (9000) exceeds model's maximum context length (2048).", "context_overflow"],
    [502, "Bad Gateway", "backend_unreachable"],
    [503, "busy", "backend_unreachable"],
    [429, "slow down", "backend_unreachable"],
    [504, "Gateway Timeout", "backend_timeout"],
    [401, "Unauthorized", "backend_invalid"],
  ] as const)("takes %p with %p for %p", (status, body, reason) => {
    expect(faultOfStatus(status, body, "POST /x").reason).toBe(reason);
  });

  test("keeps the server's own words, and not more than some", () => {
    expect(recorded(badModel).detail).toContain("The model `nope` does not exist");
    expect(faultOfStatus(500, "x".repeat(10_000), "POST /x").detail.length).toBeLessThan(600);
  });
});

describe("faultOfThrown", () => {
  test("leaves an error of ours and the caller's abort as they are", () => {
    const own = new RolloutError("backend_timeout", "late");
    const reason = new Error("cancelled");
    expect(faultOfThrown(own, new AbortController().signal, "x")).toBe(own);
    expect(faultOfThrown(new Error("The operation was aborted"), AbortSignal.abort(reason), "x")).toBe(reason);
  });

  test("takes anything else for a lost connection and keeps its cause", () => {
    const cause = new Error("ECONNRESET");
    const fault = faultOfThrown(cause, new AbortController().signal, "x");
    expect(fault).toMatchObject({ reason: "backend_unreachable", cause });
  });
});
