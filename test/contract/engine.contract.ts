import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { checkCompletion } from "../../src/llm/check.ts";
import type { CompletionRequest, Engine } from "../../src/llm/engine.ts";
import type { Renderer } from "../../src/tokens/renderer.ts";
import { DEFAULT_SAMPLING, type Sampling } from "../../src/trajectory/sampling.ts";

/** An engine with its server, and what differs between servers. */
export interface EngineUnderTest extends AsyncDisposable {
  engine: Engine;
  /** Turns under way on the server. */
  inFlight: () => Promise<number>;
  /** An engine whose server is not there. */
  absent: Engine;
  /** Sampling that keeps the server busy for a while. */
  long: Partial<Sampling>;
  /** A server of text cannot stop at an id. */
  isText?: boolean;
  /** For servers that render nothing. */
  renderer?: Renderer;
}

const never = new AbortController().signal;

/** What every engine promises; `make` starts a server for one run of the suite. */
export function engineContract(name: string, make: () => Promise<EngineUnderTest>): void {
  describe(`${name} keeps the engine contract`, () => {
    let subject: EngineUnderTest;
    let renderer: Renderer;
    let prompt: Int32Array;

    beforeAll(async () => {
      subject = await make();
      await subject.engine.probe(never);
      renderer = subject.renderer ?? (await subject.engine.remoteRenderer(never));
      prompt = (await renderer.renderPrompt([{ role: "user", content: "Say hello." }], [])).ids;
    });
    afterAll(async () => {
      await subject[Symbol.asyncDispose]();
    });

    function request(sampling: Partial<Sampling> = {}, ids = prompt): CompletionRequest {
      return {
        ids,
        sampling: { ...DEFAULT_SAMPLING, maxTokens: 24, seed: 7, ...sampling },
        stopTokenIds: renderer.endIds,
        cacheSalt: "0",
        sessionId: "job_1",
        requestId: `req_${crypto.randomUUID()}`,
      };
    }

    test("answers its probe with a model, a context and an identity that stays the same", async () => {
      const profile = await subject.engine.probe(never);
      expect(profile.kind).toBe(subject.engine.kind);
      expect(profile.model).not.toBe("");
      expect(profile.tokenExact).toBe(!subject.isText);
      expect(profile.contextTokensMax).toBeGreaterThan(prompt.length);
      expect((await subject.engine.probe(never)).weightsIdentity).toBe(profile.weightsIdentity);
    });

    test("sends turns to the route that its probe told", async () => {
      const { endpoint } = await subject.engine.probe(never);
      expect((await subject.engine.complete(request(), never)).endpoint).toBe(endpoint);
    });

    test("gives one finite log-prob of at most 0 for each id", async () => {
      const asked = request();
      const completion = await subject.engine.complete(asked, never);
      expect(completion.ids.length).toBeGreaterThan(0);
      expect(completion.ids.length).toBe(completion.logprobs.length);
      expect(checkCompletion(completion, asked.sampling.maxTokens).ids).toEqual(completion.ids);
      expect(completion.finishReason).toBeOneOf(["stop", "length"]);
    });

    test("gives the same ids again at temperature 0", async () => {
      const first = await subject.engine.complete(request({ temperature: 0 }), never);
      const second = await subject.engine.complete(request({ temperature: 0 }), never);
      expect(second.ids).toEqual(first.ids);
    });

    test("ends with length after maxTokens, and the ids are the beginning of a longer turn", async () => {
      const whole = await subject.engine.complete(request({ temperature: 0 }), never);
      const cut = await subject.engine.complete(request({ temperature: 0, maxTokens: 3 }), never);
      expect(cut.finishReason).toBe("length");
      expect(cut.ids).toEqual(whole.ids.slice(0, 3));
    });

    test("ends with stop at a stop id, which is the last id; a server of text refuses it", async () => {
      const whole = await subject.engine.complete(request({ temperature: 0 }), never);
      const stopId = whole.ids[2] ?? -1;
      if (subject.isText) {
        const refused = subject.engine.complete({ ...request(), stopTokenIds: [stopId] }, never);
        expect(await refused.catch((error: unknown) => error)).toMatchObject({ reason: "backend_invalid" });
        return;
      }
      const stopped = await subject.engine.complete({ ...request({ temperature: 0 }), stopTokenIds: [stopId] }, never);
      expect(stopped.finishReason).toBe("stop");
      expect(stopped.ids.at(-1)).toBe(stopId);
      expect(stopped.ids).toEqual(whole.ids.slice(0, whole.ids.indexOf(stopId) + 1));
    });

    test("rejects with the signal's reason and frees the server when it is cancelled", async () => {
      const controller = new AbortController();
      const reason = new Error("cancelled by the test");
      const running = subject.engine.complete({ ...request(subject.long), stopTokenIds: [] }, controller.signal);
      await until(async () => (await subject.inFlight()) > 0);
      controller.abort(reason);
      expect(await running.catch((error: unknown) => error)).toBe(reason);
      await until(async () => (await subject.inFlight()) === 0);
    });

    test("is healthy while the server is there and not when it is absent", async () => {
      expect(await subject.engine.healthy(never)).toBe(true);
      expect(await subject.absent.healthy(never)).toBe(false);
    });

    test("rejects with backend_unreachable when the server is absent", async () => {
      const error = await subject.absent.complete(request(), never).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ reason: "backend_unreachable" });
      expect(await subject.absent.probe(never).catch((thrown: unknown) => thrown)).toMatchObject({
        reason: "backend_unreachable",
      });
    });

    test("decodes what it rendered", async () => {
      const text = await renderer.decode(prompt, true);
      expect(text).toContain("Say hello.");
      expect(await renderer.decode(Int32Array.from(renderer.endIds), false)).toBe("");
    });
  });
}

/** Waits until the condition holds; the test's own time limit is the bound. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setImmediate(resolve));
}
