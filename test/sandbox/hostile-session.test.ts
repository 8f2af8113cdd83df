import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import type { SandboxHost } from "../../src/sandbox/sandbox.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const SHORT_MS = 300;
/** The child comes to its end first: it would answer, and take the next cell. */
const [FORK, WAIT] = ["import os, time\nif os.fork() == 0", "else: time.sleep(0.2)"];
let host: SandboxHost;

beforeAll(async () => {
  host = await testSandboxHost();
});
afterAll(() => host.close());

async function opened() {
  const sandbox = await host.open({ image: "host", limits: TEST_LIMITS }, never);
  const limits = { timeoutMs: 5_000, signal: never };
  return {
    sandbox,
    sh: (command: string, timeoutMs = limits.timeoutMs) => sandbox.shell(command, { ...limits, timeoutMs }),
    py: (code: string, timeoutMs = limits.timeoutMs) => sandbox.python(code, { ...limits, timeoutMs }),
    [Symbol.asyncDispose]: (): Promise<void> => sandbox.close(),
  };
}

describe("a shell whose agent", () => {
  test.each([
    ["names a function printf", "printf() { :; }"],
    ["names a function eval", "eval() { :; }"],
    ["makes printf and eval aliases", "shopt -s expand_aliases; alias eval=false printf=false builtin=false"],
    ["splits words at digits", "IFS=0123456789abcdef"],
    ["runs something at each prompt", "PROMPT_COMMAND='sleep 100'"],
    ["runs something before each command", "PS0='$(sleep 100)'"],
    ["sets a prompt", "PS1='prompt$ ' PS2='> '"],
    ["sends its descriptors elsewhere", "exec > /dev/null 2>&1 9> /dev/null"],
    ["turns history expansion on", "set -H"],
    ["turns job control on", "set -m"],
  ])("%s answers as before", async (_, command) => {
    await using box = await opened();
    expect(await box.sh(command)).toMatchObject({ timedOut: false, note: null });
    expect(await box.sh("echo 'alive !1'; (exit 7)")).toMatchObject({
      output: "alive !1\n",
      exitCode: 7,
      timedOut: false,
      note: null,
    });
    expect(await box.sh("echo again")).toMatchObject({ output: "again\n", exitCode: 0, note: null });
  });

  test.each([
    ["closes every descriptor", 'for i in {0..30}; do eval "exec $i>&-"; done'],
    ["allows itself three descriptors", "ulimit -n 3"],
    ["stops itself", "kill -STOP $$"],
    ["takes the supervisor with it", "kill -9 $PPID; kill -9 $$"],
    ["stops the supervisor and ends", "kill -STOP $PPID; kill -9 $$"],
    ["takes printf away", "enable -n printf; PATH="],
  ])("%s is started anew, and the model is told", async (_, command) => {
    await using box = await opened();
    const results = [await box.sh(command, SHORT_MS), await box.sh("true", SHORT_MS)];
    expect(results.map((result) => result.note).join()).toContain("new one was started");
    expect(await box.sh("echo alive")).toMatchObject({ output: "alive\n", exitCode: 0, note: null });
  });

  test("leaves its output non-blocking, as a killed node does, gets all of the next output", async () => {
    await using box = await opened();
    await box.sh("python3 -c 'import os; [os.set_blocking(fd, False) for fd in (1, 2)]'");
    expect(await box.sh("seq 1 1000000")).toMatchObject({ outputBytes: 6_888_896, exitCode: 0 });
    await box.py("import os\nos.set_blocking(1, False)");
    expect(await box.py("for i in range(1000): print('x' * 9_999)")).toMatchObject({ outputBytes: 10_000_000 });
  });

  test("ends between two calls is told of at the next", async () => {
    await using box = await opened();
    await box.sh("KEPT=1; (sleep 0.05; kill -9 $$) & true");
    await box.py("import time; time.sleep(0.3)");
    const result = await box.sh('echo "[$KEPT]"');
    expect(result).toMatchObject({ output: "[]\n", exitCode: 0 });
    expect(result.note).toContain("had ended. A new one was started");
  });

  test("fills the disk hears of it when a command or the worker does not fit, and can mend it", async () => {
    await using box = await opened();
    await box.sh("head -c 1G /dev/zero > /tmp/big");
    for (const result of [await box.sh(`: ${"x".repeat(40_000)}`), await box.py("1")]) {
      expect(result.exitCode).toBeNull();
      expect(result.note).toContain("was not run");
      expect(result.note).toContain("disk is full");
    }
    await box.sh("rm /tmp/big");
    expect((await box.py("6 * 7")).output).toBe("42\n");
  });
});

describe("a Python worker whose cell", () => {
  test.each([
    ["forks a child that runs on", `${FORK}: kept = 'of the child'\n${WAIT}`, 0],
    ["forks a child that fails", `${FORK}: 1 / 0\n${WAIT}`, 0],
    ["closes stdout", "import sys\nsys.stdout.close()", 0],
    ["closes descriptor 1", "import os\nos.close(1)", 0],
    ["closes the first hundred descriptors", "import os\nos.closerange(0, 100)", 0],
    ["puts no file in place of stdout and exits", "import sys\nsys.stdout = object()\nsys.exit('x')", 1],
    ["exits with a number of 200 digits", "exit(10 ** 200 + 7)", (10n ** 200n + 7n) & 255n],
    ["exits with -1 and a bool", "import sys\nsys.exit(-1 if True else 0)", 255],
    ["exits with True", "exit(True)", 1],
    ["exits with an int of its own", "class I(int):\n  def __format__(s, f): 1 / 0\nexit(I(3))", 3],
    ["replaces what json and os hold", "import json, os\njson.loads = os.write = os.getpid = None", 0],
    ["prints surrogates", "print('\\ud800')", 0],
    ["fails in its own repr", "class R:\n  def __repr__(s): return 5\nR()", 1],
  ])("%s answers as before", async (_, code, exitCode) => {
    await using box = await opened();
    await box.py("kept = 'of the worker'");
    expect(await box.py(code)).toMatchObject({ exitCode: Number(exitCode), timedOut: false, note: null });
    const seen = (await box.py("print('alive', kept)")).output;
    expect(seen).toEndWith("alive of the worker\n");
    expect(seen).not.toContain("\x1e");
    expect((await box.py("1 + 1")).output).toEndWith("2\n");
  });

  test.each([
    ["ignores the interrupt", "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(100)"],
    ["cannot end its own traceback", "class E(Exception):\n  def __str__(s):\n    while True: pass\nraise E()"],
    ["takes the supervisor with it", "import os\nos.kill(os.getppid(), 9)\nos._exit(1)"],
    ["leaves no descriptor", "import os\nos.closerange(0, 4096)"],
  ])("%s is started anew, and the model is told", async (_, code) => {
    await using box = await opened();
    await box.py("1");
    const results = [await box.py(code, SHORT_MS), await box.py("1")];
    expect(results.map((result) => result.note).join()).toContain("new one was started");
    expect((await box.py("'alive'")).output).toBe("'alive'\n");
  });
});
