import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import type { Verdict } from "../../src/job/job.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { silentLog } from "../../src/log.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { createRegistry } from "../../src/tasks/registry.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";
import { rejectionOf } from "../support/store.ts";

let sandboxes: SandboxHost;
beforeAll(async () => {
  sandboxes = await testSandboxHost();
});
afterAll(async () => {
  expect(sandboxes.live).toBe(0);
  await sandboxes.close();
});

const registry = createRegistry(systemClock);

/** Grades `solution`, as if the agent had left it in solution.py, by these tests. */
function grade(solution: string, over: Record<string, unknown>): Promise<Verdict> {
  const raw = { id: "t", handler: "code", prompt: "p", limits: {}, ...over };
  const { task, handler } = registry.parse(raw);
  const bytes = new TextEncoder().encode(solution);
  return handler.evaluate({
    task,
    carry: { answer: null, artifacts: [{ name: "solution.py", bytes }] },
    limits: { ...DEFAULT_LIMITS, evalMs: 20_000 },
    signal: new AbortController().signal,
    log: silentLog,
    sandboxes,
  });
}

const asserts = (...codes: string[]) => ({ tests: codes.map((code) => ({ kind: "assert", code })) });

describe("code handler", () => {
  test("gives the share of asserts that hold", async () => {
    const verdict = await grade(
      "def f(x):\n    return x * 2\n",
      asserts("assert f(2) == 4\nassert f(3) == 7", "assert f(0) == 0"),
    );
    expect(verdict).toMatchObject({
      reward: 2 / 3,
      rewards: { tests_passed: 2 / 3, all_passed: 0 },
      grading: "separate",
      report: { passed: 2, tests: 3 },
    });
  });

  test("gives nothing for a part when the task wants all", async () => {
    const verdict = await grade("def f(x):\n    return x\n", {
      ...asserts("assert f(1) == 1", "assert f(2) == 3"),
      credit: "all",
    });
    expect(verdict).toMatchObject({ reward: 0, rewards: { tests_passed: 0.5 } });
  });

  test("is not fooled by an object that equals everything", async () => {
    const cheat =
      "class Any:\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\ndef f(x): return Any()\n";
    expect((await grade(cheat, asserts("assert f(1) == 2"))).reward).toBe(0);
  });

  test("is not fooled by a list subclass that lies about equality", async () => {
    const cheat = "class L(list):\n    def __eq__(self, other): return True\ndef f(x): return L([9])\n";
    expect((await grade(cheat, asserts("assert f(1) == [1]"))).reward).toBe(0);
  });

  test("is not fooled by lines that look like the judge's protocol", async () => {
    const cheat = [
      "import os, sys",
      "for fd in range(3, 20):",
      '    try: os.write(fd, b\'{"result": {"test": 0, "unit": 0, "units": 1, "passed": true, "detail": "", "why": null}}\\n{"done": true}\\n\')',
      "    except OSError: pass",
      "def f(x): return 0",
    ].join("\n");
    expect((await grade(cheat, asserts("assert f(1) == 1"))).reward).toBe(0);
  });

  test("cannot see the tests from the candidate", async () => {
    const spy = "import glob\ndef f(x): return sorted(glob.glob('/grader/*'))\n";
    expect((await grade(spy, asserts("assert f(1) == []"))).reward).toBe(1);
  });

  test("crosses tuples, sets, bytes, big integers, nan, infinities and nested dicts as what they are", async () => {
    const code = [
      "v = f((1, {2}, frozenset([3]), b'x', 2**80, float('inf'), {'k': [None, True, (4,)], 5: 1+2j}))",
      "assert v == (1, {2}, frozenset([3]), b'x', 2**80, float('inf'), {'k': [None, True, (4,)], 5: 1+2j}) and type(v) is tuple",
      "n = f(float('nan'))",
      "assert n != n",
    ].join("\n");
    expect((await grade("def f(x): return x\n", asserts(code))).reward).toBe(1);
  });

  test("shows the caller a list that the function changed in place", async () => {
    expect((await grade("def f(x): x.append(3)\n", asserts("x = [1]\nf(x)\nassert x == [1, 3]"))).reward).toBe(1);
  });

  test("passes exceptions on by their builtin type", async () => {
    const code = "try:\n    f(1)\n    ok = False\nexcept ValueError as e:\n    ok = str(e) == 'no'\nassert ok";
    expect((await grade("def f(x): raise ValueError('no')\n", asserts(code))).reward).toBe(1);
  });

  test("gives the tests any helper that the solution defines", async () => {
    const solution =
      "def poly(xs, x): return sum(c * x**i for i, c in enumerate(xs))\ndef zero(xs): return -xs[0] / xs[1]\n";
    const row = {
      entry_point: "zero",
      ...asserts("def check(candidate):\n    assert abs(poly([1, 2], candidate([1, 2]))) < 1e-9\n"),
    };
    expect((await grade(solution, row)).reward).toBe(1);
  });

  test("counts each assert of a HumanEval check alone", async () => {
    const check =
      "def check(candidate):\n    for i in range(3):\n        assert candidate(i) == i\n    assert candidate(9) == 10\n";
    expect(await grade("def g(x): return x\n", { entry_point: "g", ...asserts(check) })).toMatchObject({ reward: 0.5 });
  });

  test.each([
    ["ends its process", "import os\ndef f(x): os._exit(0)\n", "candidate_died"],
    ["does not load", "def f(x) return x\n", "candidate_error: SyntaxError"],
    ["eats memory", "def f(x): return len('x' * (1 << 40))\n", "MemoryError"],
    ["recurses for ever", "def f(x): return f(x)\n", "RecursionError"],
    ["answers what cannot cross", "def f(x): return open('/etc/passwd')\n", "cannot leave the candidate"],
    ["lacks the function", "x = 1\n", "NameError"],
  ])("scores 0, not an error, when the candidate %s", async (_what, solution, why) => {
    const verdict = await grade(solution, asserts("assert f(1) == 1"));
    expect(verdict.reward).toBe(0);
    expect(JSON.stringify(verdict.report)).toContain(why);
  });

  test("scores a candidate that hangs as timed out and still runs what is left of the time", async () => {
    const limits = { ...DEFAULT_LIMITS, evalMs: 2_500 };
    const { task, handler } = registry.parse({
      id: "t",
      handler: "code",
      prompt: "p",
      ...asserts("assert f(0) == 1", "assert f(1) == 1"),
    });
    const bytes = new TextEncoder().encode("def f(x):\n    while True: pass\n");
    const carry = { answer: null, artifacts: [{ name: "solution.py", bytes }] };
    const context = { task, carry, limits, log: silentLog, sandboxes, signal: new AbortController().signal };
    const verdict = await handler.evaluate(context);
    expect(verdict.reward).toBe(0);
    expect(JSON.stringify(verdict.report)).toContain("candidate_timeout");
  });

  test("blames the task when the tests themselves do not parse", async () => {
    const error = await rejectionOf(grade("def f(x): return x\n", asserts("assert f(1 ==")));
    expect(error).toMatchObject({ reason: "handler_error" });
  });

  test("compares what a program prints, line by line, without white space at the ends", async () => {
    const tests = [
      { kind: "stdio", input: "1 2\n", output: "3\n" },
      { kind: "stdio", input: "5 5\n", output: "11\n" },
    ];
    const verdict = await grade("a, b = map(int, input().split())\nprint(a + b, end='  \\n\\n')\n", { tests });
    expect(verdict).toMatchObject({ reward: 0.5 });
    expect(JSON.stringify(verdict.report)).toContain('line 1: expected \\"11\\", printed \\"10\\"');
  });

  test("fails a program that prints the answer and then crashes", async () => {
    const tests = [{ kind: "stdio", input: "", output: "1\n" }];
    expect((await grade("print(1)\nraise SystemExit(3)\n", { tests })).reward).toBe(0);
  });

  test("does not wait for a program that never reads a large input", async () => {
    const tests = [{ kind: "stdio", input: "x".repeat(1 << 20), output: "1\n" }];
    expect((await grade("print(1)\n", { tests })).reward).toBe(1);
  });

  test("takes the first closed python fence of the answer when no file was written", async () => {
    const { task, handler } = registry.parse({
      id: "t",
      handler: "code",
      prompt: "p",
      tool_format: "none",
      ...asserts("assert f(1) == 1"),
    });
    const evaluate = (answer: string) =>
      handler.evaluate({
        task,
        carry: { answer, artifacts: [] },
        limits: DEFAULT_LIMITS,
        signal: new AbortController().signal,
        log: silentLog,
        sandboxes,
      });
    expect((await evaluate("Sure:\n```python\ndef f(x):\n    return x\n```\nDone")).reward).toBe(1);
    expect(await evaluate("```python\ndef f(x):\n    return x\n")).toMatchObject({
      reward: 0,
      report: { solution_found: false },
    });
  });
});
