import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import type { Carry, Verdict } from "../../src/job/job.ts";
import { DEFAULT_LIMITS } from "../../src/job/limits.ts";
import { silentLog } from "../../src/log.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { createRegistry } from "../../src/tasks/registry.ts";
import { testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

let sandboxes: SandboxHost;
beforeAll(async () => {
  sandboxes = await testSandboxHost();
});
afterAll(async () => {
  expect(sandboxes.live).toBe(0);
  await sandboxes.close();
});

const registry = createRegistry(systemClock);

function grade(
  solution: string | { answer: string },
  over: Record<string, unknown>,
  evalMs = 40_000,
): Promise<Verdict> {
  const { task, handler } = registry.parse({ id: "t", handler: "code", prompt: "p", ...over });
  const carry: Carry =
    typeof solution === "string"
      ? { answer: null, artifacts: [{ name: "solution.py", bytes: new TextEncoder().encode(solution) }] }
      : { answer: solution.answer, artifacts: [] };
  const limits = { ...DEFAULT_LIMITS, evalMs };
  return handler.evaluate({ task, carry, limits, signal: new AbortController().signal, log: silentLog, sandboxes });
}

const asserts = (...codes: string[]) => ({ tests: codes.map((code) => ({ kind: "assert", code })) });

describe("code handler, for a right solution", () => {
  test.each([
    [
      "with a dataclass under postponed annotations",
      "from __future__ import annotations\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef f(x): return P(x).x\n",
      "assert f(3) == 3",
    ],
    ["that is a generator", "def f(n):\n    for i in range(n): yield i\n", "assert list(f(3)) == [0, 1, 2]"],
    [
      "that never stops yielding",
      "def f():\n    i = 0\n    while True:\n        yield i\n        i += 1\n",
      "g = f()\nassert [next(g), next(g)] == [0, 1]",
    ],
    ["that answers with map", "def f(xs): return map(str, xs)\n", "assert list(f([1, 2])) == ['1', '2']"],
    ["that answers with a range", "def f(n): return range(n)\n", "assert f(3) == range(3) and len(f(4)) == 4"],
    [
      "that answers with a dict's keys",
      "def f(d): return d.keys()\n",
      "assert sorted(f({'b': 1, 'a': 2})) == ['a', 'b']",
    ],
    [
      "that raises its own kind of a builtin exception",
      "class Bad(ValueError): pass\ndef f(x): raise Bad('no')\n",
      "try:\n    f(1)\n    ok = False\nexcept ValueError as e:\n    ok = str(e) == 'no'\nassert ok",
    ],
    [
      "that raises an exception with a constructor of its own",
      "def f(x): return x.decode('ascii')\n",
      "try:\n    f(b'\\xff')\n    ok = False\nexcept UnicodeDecodeError:\n    ok = True\nassert ok",
    ],
    ["that is imported by name", "def f(x): return x\n", "from solution import f\nassert f(2) == 2"],
    ["that is imported as a module", "def f(x): return x\n", "import solution\nassert solution.f(2) == 2"],
    ["with a main guard", "def f(x): return x\nif __name__ == '__main__':\n    f(input())\n", "assert f(1) == 1"],
    [
      "that prints 100 MB",
      "def f(x):\n    for _ in range(100): print('x' * 1_000_000)\n    return x\n",
      "assert f(1) == 1",
    ],
    [
      "with a global counter",
      "n = 0\ndef f():\n    global n\n    n += 1\n    return n\n",
      "assert f() == 1\nassert f() == 2",
    ],
  ])("%s gives 1", async (_what, solution, code) => {
    const verdict = await grade(solution, asserts(code));
    expect({ reward: verdict.reward, report: verdict.report }).toMatchObject({ reward: 1 });
  });

  test("that leaves out what its starter code imports and defines before the function gives 1", async () => {
    const row = {
      entry_point: "g",
      starter_code:
        'from typing import List\n\n\ndef helper(x):\n    return x + 1\n\n\ndef g(xs: List[int]) -> int:\n    """Sum."""\n',
      tool_format: "none",
      ...asserts("def check(candidate):\n    assert candidate([1, 2]) == 4\n"),
    };
    const answer = "```python\ndef g(xs: List[int]) -> int:\n    return helper(sum(xs))\n```";
    expect(await grade({ answer }, row)).toMatchObject({ reward: 1 });
  });

  test("that prints CRLF, or is expected to, gives 1", async () => {
    const tests = [
      { kind: "stdio", input: "1\r\n2\r\n", output: "1\r\n2\r\n" },
      { kind: "stdio", input: "1\n2\n", output: "1\n2" },
    ];
    const solution = "import sys\nfor line in sys.stdin.read().split(): print(line, end='\\r\\n')\n";
    expect(await grade(solution, { tests })).toMatchObject({ reward: 1 });
  });
});

describe("code handler, for a wrong solution", () => {
  test.each([
    ["answers nested without end", "x = []\nx.append(x)\ndef f(y): return x\n", "assert f(1) == 1"],
    ["answers with what has no hash inside a set", "def f(y): return {(1, 2)}\n", "assert f(1) == {(1, 3)}"],
    ["asks for input", "def f(x): return input()\n", "assert f(1) == ''"],
    [
      "writes deep JSON onto the pipe",
      "import os\ndef f(x):\n    for fd in range(3, 20):\n        try: os.write(fd, b'{\"value\":' + b'[' * 200000 + b']' * 200000 + b'}\\n')\n        except OSError: pass\n",
      "assert f(1) == 1",
    ],
    [
      "writes a tag that breaks the judge",
      'import os\ndef f(x):\n    for fd in range(3, 20):\n        try: os.write(fd, b\'{"value":{"~":"int","v":"\' + b\'f\' * 2000000 + b\'"}}\\n\')\n        except OSError: pass\n',
      "assert f(1) == 1",
    ],
    [
      "names a builtin that is no exception",
      'import os\ndef f(x):\n    for fd in range(3, 20):\n        try: os.write(fd, b\'{"error":{"type":"SystemExit","message":"0"}}\\n\')\n        except OSError: pass\n',
      "assert f(1) == 1",
    ],
    [
      "has an exception that cannot be told",
      "class E(Exception):\n    def __str__(self): raise E()\ndef f(x): raise E()\n",
      "assert f(1) == 1",
    ],
    ["is an endless generator that is listed", "def f(x):\n    while True: yield 1\n", "assert list(f(1)) == [1]"],
  ])("that %s gives 0, not an error", async (_what, solution, code) => {
    expect(await grade(solution, asserts(code))).toMatchObject({ reward: 0 });
  });

  test("that stops reading its calls is timed out, however long a call is", async () => {
    const holdsTheInterpreter = [
      "import re, threading, time",
      "def hold():",
      "    time.sleep(0.3)",
      "    re.match(r'(a+)+$', 'a' * 60 + 'b')",
      "threading.Thread(target=hold, daemon=True).start()",
      "def f(x): return len(x)",
    ].join("\n");
    const code = "import time\ntime.sleep(1)\nassert f('x' * 1_000_000) == 1_000_000";
    const warm = `f('x')\n${code}`;
    const verdict = await grade(holdsTheInterpreter, { ...asserts(warm), credit: "all" }, 4_000);
    expect(verdict).toMatchObject({ reward: 0 });
    expect(JSON.stringify(verdict.report)).toContain("candidate_timeout");
  });

  test.each([
    [
      "longer than a test may take over it",
      "def f(): return range(10 ** 15)\n",
      "assert sum(f()) == 5",
      "candidate_timeout",
    ],
    ["more memory than the tests have", "def f(): return range(10 ** 15)\n", "assert list(f()) == [5]", "MemoryError"],
  ])(
    "that answers with what keeps a test busy for %s gets 0 for it, not a failure of the grader",
    async (_what, solution, code, why) => {
      const two = {
        tests: [...asserts("assert f() is not None").tests, ...asserts(code).tests, ...asserts(code).tests],
      };
      const verdict = await grade(solution, two, 10_000);
      expect(verdict).toMatchObject({ reward: 1 / 3, rewards: { all_passed: 0 } });
      expect(JSON.stringify(verdict.report)).toContain(why);
    },
  );

  test("that ends between two calls has died, which is no failure of the grader", async () => {
    const solution = [
      "import os, threading",
      "threading.Timer(0.2, lambda: os._exit(0)).start()",
      "def f(x): return x",
    ].join("\n");
    const code = "f('x')\nimport time\ntime.sleep(1)\nassert f('x' * 1_000_000) == 1";
    const verdict = await grade(solution, asserts(code));
    expect(verdict).toMatchObject({ reward: 0 });
    expect(JSON.stringify(verdict.report)).toContain("candidate_died");
  });

  test("that prints the answer and a megabyte more gives 0", async () => {
    const output = "x".repeat(1024 * 256);
    const tests = [{ kind: "stdio", input: "", output }];
    expect(await grade(`print("x" * ${2 * 1024 * 1024})\n`, { tests })).toMatchObject({ reward: 0 });
  });

  test("is graded by a thousand calls, and by a hundred programs, in the time of EVAL", async () => {
    const many = Array.from({ length: 1_000 }, (_, at) => `assert f(${at}) == ${at}`).join("\n");
    const calls = await grade("def f(x): return x\n", asserts(many));
    expect(calls).toMatchObject({ reward: 1, report: { tests: 1_000 } });
    const tests = Array.from({ length: 100 }, (_, at) => ({ kind: "stdio", input: `${at}\n`, output: `${at}\n` }));
    expect(await grade("print(input())\n", { tests })).toMatchObject({ reward: 1 });
  });
});
