import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(120_000);

const never = new AbortController().signal;
const MB = 1_000_000;
let host: SandboxHost;
const before = residue();

beforeAll(async () => {
  host = await testSandboxHost();
});
afterAll(async () => {
  await host.close();
  expect(await leftSince(before)).toEqual(NOTHING);
});

async function opened(limits = TEST_LIMITS) {
  const sandbox = await host.open({ image: "host", limits }, never);
  return {
    sandbox,
    sh: (command: string, timeoutMs = 20_000) => sandbox.shell(command, { timeoutMs, signal: never }),
    py: (code: string, timeoutMs = 20_000) => sandbox.python(code, { timeoutMs, signal: never }),
    [Symbol.asyncDispose]: (): Promise<void> => sandbox.close(),
  };
}

describe("Session.run of a shell", () => {
  test.each([
    ["SIGSEGV", "sh -c 'kill -SEGV $$'", 139],
    ["SIGKILL", "sh -c 'kill -9 $$'", 137],
    ["SIGTERM", "sleep 100 & kill $!; wait $!", 143],
    ["SIGPIPE", "set -o pipefail; yes | head -n 1 > /dev/null", 141],
  ])("tells %s beside the exit code", async (signal, command, exitCode) => {
    await using box = await opened();
    expect(await box.sh(command)).toMatchObject({ signal, exitCode, timedOut: false, ladder: [], truncated: false });
  });

  test("tells no signal of a command that exits by itself", async () => {
    await using box = await opened();
    for (const exitCode of [0, 1, 127, 128, 255]) {
      expect(await box.sh(`(exit ${exitCode})`)).toMatchObject({ exitCode, signal: null });
    }
  });

  test("reports each step of the ladder that was taken, and no more", async () => {
    await using box = await opened();
    const [below, leader] = ["below", "leader"] as const;
    const gentle = await box.sh("sleep 100", 100);
    expect(gentle.ladder).toEqual([{ signal: "SIGINT", target: below }]);
    expect(gentle).toMatchObject({ timedOut: true, exitCode: 130, signal: "SIGINT" });
    const own = await box.sh("while :; do :; done", 100);
    expect(own.ladder).toEqual([{ signal: "SIGINT", target: leader }]);
    const deaf = await box.sh("bash -c 'trap \"\" INT TERM; while :; do sleep 0.05; done'", 100);
    expect(deaf.ladder).toEqual([
      { signal: "SIGINT", target: below },
      { signal: "SIGINT", target: leader },
      { signal: "SIGKILL", target: below },
    ]);
    expect(deaf.note).toMatch(/interrupted \(SIGINT\).*interrupted \(SIGINT\).*killed \(SIGKILL\)\.$/);
    const stuck = await box.sh("trap '' INT; while :; do :; done", 100);
    expect(stuck.ladder.at(-1)).toEqual({ signal: "SIGKILL", target: leader });
    expect(stuck.note).toContain("so the session was killed (SIGKILL). A new one was started");
    expect(await box.sh("echo alive")).toMatchObject({ output: "alive\n", note: null });
  });

  test.each([
    [
      "every byte",
      "python3 -c 'import os; os.write(1, bytes(range(256)))'",
      Uint8Array.from({ length: 256 }, (_, i) => i),
    ],
    ["no newline at the end", "printf 'a\\nb'", Buffer.from("a\nb")],
    ["what looks like the beginning of a mark", "printf 'a\\n\\036'", Buffer.from("a\n\x1e")],
    ["half of a character", "printf '\\342\\202'", Buffer.from([0xe2, 0x82])],
    ["colours and returns", "printf '\\033[1mx\\033[0m\\r\\ny'", Buffer.from("\x1b[1mx\x1b[0m\r\ny")],
  ])("gives the very bytes of an output with %s", async (_, command, bytes) => {
    await using box = await opened();
    const result = await box.sh(command);
    expect(Buffer.from(result.raw).equals(Buffer.from(bytes))).toBe(true);
    expect(result.outputBytes).toBe(bytes.length);
  });

  test("is not deceived by marks of other calls, in any number", async () => {
    await using box = await opened();
    const forged = await box.sh("for i in $(seq 1 2000); do printf '\\n\\036%032x 0\\036' $i; done; (exit 7)");
    expect(forged).toMatchObject({ exitCode: 7, outputBytes: 2_000 * 37 });
    expect(await box.sh("echo next")).toMatchObject({ output: "next\n" });
  });

  test("halves no character where it cuts the middle out", async () => {
    await using box = await opened();
    const long = await box.sh("yes 'äöü€😀x' | head -n 200000");
    expect(long.truncated).toBe(true);
    expect(long.output).not.toContain("\ufffd");
    const shown = Buffer.byteLength(long.head) + Buffer.byteLength(long.tail);
    expect(shown + long.leftBytes).toBe(long.outputBytes);
  });

  test("takes 1 GB of output with bounded memory, keeps the first bytes, and leaves no descriptor", async () => {
    await using box = await opened();
    await box.sh("true");
    Bun.gc(true);
    const rss = process.memoryUsage.rss();
    let highest = rss;
    const watch = setInterval(() => {
      highest = Math.max(highest, process.memoryUsage.rss());
    }, 20);
    const flood = await box.sh("head -c 1000000000 /dev/zero | tr '\\0' z", 60_000);
    clearInterval(watch);
    expect(flood).toMatchObject({ outputBytes: 1_000 * MB, exitCode: 0, truncated: true });
    expect(flood.raw.length).toBe(LIMITS.outputFileBytesMax);
    expect(flood.leftBytes).toBe(1_000 * MB - LIMITS.outputBytesMax);
    expect(highest - rss).toBeLessThan(100 * MB);
  });

  test("counts each of 300,000 writes of one byte", async () => {
    await using box = await opened();
    const code = "import os\nfor i in range(300000): os.write(1, b'x')";
    const flood = await box.sh(`python3 -c "${code}"`, 60_000);
    expect(flood).toMatchObject({ outputBytes: 300_000, exitCode: 0 });
  });
});

describe("Session.run of a Python worker", () => {
  test("shows a last expression unless a semicolon ends it", async () => {
    await using box = await opened();
    expect((await box.py("6 * 7")).output).toBe("42\n");
    expect((await box.py("6 * 7;")).output).toBe("");
    expect((await box.py("_")).output).toBe("42\n");
  });

  test("keeps output and errors in order, also those of child processes", async () => {
    await using box = await opened();
    const lines =
      "import sys, os\nfor i in range(3):\n  print('o', i)\n  print('e', i, file=sys.stderr)\n  os.system('echo c')";
    expect((await box.py(`${lines}\nNone`)).output).toBe("o 0\ne 0\nc\no 1\ne 1\nc\no 2\ne 2\nc\n");
  });

  test("cuts a traceback of a thousand frames and keeps its end", async () => {
    await using box = await opened();
    const deep = await box.py("def f(n): return f(n + 1)\nf(0)");
    expect(deep.output).toContain("RecursionError");
    expect(deep.output.length).toBeLessThan(4_000);
    expect(deep.output).not.toContain("python-worker");
  });

  test("interrupts a cell at its limit, says by which signal, and keeps the state", async () => {
    await using box = await opened();
    await box.py("kept = [1]");
    const late = await box.py("kept.append(2)\nimport time\ntime.sleep(100)", 200);
    expect(late).toMatchObject({ timedOut: true, exitCode: 130, signal: "SIGINT" });
    expect(late.output).toContain("KeyboardInterrupt");
    expect((await box.py("kept")).output).toBe("[1, 2]\n");
    expect(await box.py("import sys; sys.exit(130)")).toMatchObject({ exitCode: 130, signal: null });
  });

  test.each([
    ["takes sys.modules away", "import sys\nsys.modules = None"],
    ["fakes matplotlib with one that fails", "def get_fignums(): 1 / 0"],
    ["fakes one that never ends", "def get_fignums():\n  while True: pass"],
    ["fakes one with figures without end", "import itertools\ndef get_fignums(): return itertools.count()"],
    ["fakes one that ends the worker's own loop", "def get_fignums(): raise SystemExit(3)"],
  ])("goes on when a cell %s", async (_, code) => {
    await using box = await opened();
    const fake =
      "import sys, types\nm = types.ModuleType('m')\nm.get_fignums = get_fignums\nsys.modules['matplotlib.pyplot'] = m";
    await box.py(code.startsWith("import sys") ? code : `${code}\n${fake}`, 300);
    const next = await box.py("print('alive')", 300);
    expect(next.output).toContain("alive\n");
    expect(next).toMatchObject({ figures: [] });
  });

  test("goes on after a MemoryError", async () => {
    await using box = await opened({ ...TEST_LIMITS, memoryBytes: 256 << 20 });
    await box.py("kept = 1");
    const full = await box.py("x = [bytearray(10_000_000) for _ in range(1000)]");
    expect(full.exitCode).not.toBe(0);
    expect(`${full.output}${full.note}`).toMatch(/MemoryError|SIGKILL/);
    expect((await box.py("1 + 1")).output).toBe("2\n");
  });

  test.each([
    [
      "kills it",
      "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
      "SIGKILL",
      "was killed by SIGKILL, as happens when memory runs out",
    ],
    ["breaks its memory", "import ctypes\nctypes.string_at(0)", "SIGSEGV", "was killed by SIGSEGV"],
    [
      "ends it hard",
      "import os\nos._exit(3)",
      null,
      "session ended. A new one was started: variables and imports are lost",
    ],
  ])("says how it ended when a cell %s, and starts a new one", async (_, code, signal, note) => {
    await using box = await opened();
    const end = await box.py(code);
    expect(end.signal).toBe(signal);
    expect(end.note).toContain(note);
    expect((await box.py("'alive'")).output).toBe("'alive'\n");
  });
});
