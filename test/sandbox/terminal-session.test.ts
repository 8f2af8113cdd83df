import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { LIMITS } from "../../src/limits.ts";
import { createHostImage } from "../../src/sandbox/host-image.ts";
import { fixedCatalog } from "../../src/sandbox/image.ts";
import type { SandboxHost, TerminalKey } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { TEST_LIMITS, testSandboxHost } from "../support/sandbox-host.ts";

setDefaultTimeout(60_000);

const never = new AbortController().signal;
const SHORT_MS = 500;
const before = residue();
const base = createHostImage({ usrLocal: false });
/** What an image without some programs is like: only these are on its PATH. */
const having = (name: string, ...programs: string[]) => {
  const links = [...programs, "env", "stty", "sleep"].flatMap((each) => [
    "--symlink",
    `/usr/bin/${each}`,
    `/opt/bin/${each}`,
  ]);
  return { ...base, name, mounts: [...base.mounts, "--dir", "/opt/bin", ...links], path: "/opt/bin" };
};
const images = [base, having("no-script", "python3"), having("neither")];
let host: SandboxHost;

beforeAll(async () => {
  host = await testSandboxHost({ images: fixedCatalog(images) });
});
afterAll(async () => {
  await host.close();
  expect(await leftSince(before)).toEqual(NOTHING);
});

async function opened(image = "host") {
  const sandbox = await host.open({ image, limits: TEST_LIMITS }, never);
  const options = (timeoutMs: number) => ({ timeoutMs, signal: never });
  return {
    sandbox,
    run: (text: string, ms = 5_000) => sandbox.terminal({ kind: "command", text }, options(ms)),
    line: (text: string, ms = 5_000) => sandbox.terminal({ kind: "line", text }, options(ms)),
    key: (key: TerminalKey, ms = 5_000) => sandbox.terminal({ kind: "key", key }, options(ms)),
    more: (ms = 5_000) => sandbox.terminal({ kind: "more" }, options(ms)),
    [Symbol.asyncDispose]: (): Promise<void> => sandbox.close(),
  };
}

describe("TerminalSession.type", () => {
  test("runs commands on a terminal, with output, exit code and signal apart, without prompt or echo", async () => {
    await using box = await opened();
    const done = { exitCode: 0, signal: null, running: false, timedOut: false, note: null };
    expect(await box.run("test -t 0 && test -t 1 && stty size")).toMatchObject({ ...done, output: "24 80\n" });
    expect(await box.run("cd /tmp; export A=1; f() { echo f$A; }; (exit 7)")).toMatchObject({
      output: "",
      exitCode: 7,
    });
    expect(await box.run("f\npwd\ncat <<'X'\na'b\nX")).toMatchObject({ ...done, output: "f1\n/tmp\na'b\n" });
    expect(await box.run("sh -c 'kill -9 $$'")).toMatchObject({ exitCode: 137, signal: "SIGKILL" });
    expect(await box.run(`echo '${"x".repeat(100_000)}' | wc -c`)).toMatchObject({ ...done, output: "100001\n" });
    expect((await box.run("echo 'unterminated")).exitCode).not.toBe(0);
    expect(await box.run("printf 'no newline'")).toMatchObject({ ...done, output: "no newline" });
  });

  test("feeds the program that runs, and shows its prompt", async () => {
    await using box = await opened();
    const asked = await box.run("read -p 'Name? ' name; read -p 'Age? ' age; echo $name is $age", SHORT_MS);
    expect(asked).toMatchObject({ output: "Name? ", running: true, exitCode: null, timedOut: true });
    expect(asked.note).toContain("is_input types a line into it");
    expect(await box.line("Bob")).toMatchObject({ output: "Age? ", running: true, timedOut: false });
    expect(await box.line("42")).toMatchObject({ output: "Bob is 42\n", running: false, exitCode: 0 });
  });

  test("refuses a second command while one runs, and input while none does", async () => {
    await using box = await opened();
    expect((await box.line("x")).note).toBe("Nothing is running in the terminal: give a command.");
    expect((await box.key("C-d")).note).toContain("Nothing is running");
    expect((await box.more()).note).toContain("Nothing is running");
    await box.run("sleep 100", 100);
    expect((await box.run("echo two")).note).toContain("It was not run: a command still runs.");
    expect(await box.key("C-c")).toMatchObject({ running: false, exitCode: 130, signal: "SIGINT" });
    expect((await box.run("echo three")).output).toBe("three\n");
  });

  test("gives more output of a command that goes on, each byte once", async () => {
    await using box = await opened();
    const parts = [await box.run("for i in $(seq 1 40); do echo $i; sleep 0.02; done", 200)];
    while (parts.at(-1)?.running === true) parts.push(await box.more(200));
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.map((part) => part.output).join("")).toBe(Array.from({ length: 40 }, (_, i) => `${i + 1}\n`).join(""));
  });

  test("suspends by C-z, goes on in the background, and ends input by C-d", async () => {
    await using box = await opened();
    await box.run("sleep 100", 100);
    const stopped = await box.key("C-z");
    expect(stopped.output).toContain("Stopped");
    expect(stopped.running).toBe(false);
    expect((await box.run("bg; jobs")).output).toContain("Running");
    expect(await box.run("cat", 100)).toMatchObject({ running: true });
    expect((await box.line("typed")).output).toBe("typed\n");
    expect(await box.key("C-d")).toMatchObject({ running: false, exitCode: 0 });
    expect((await box.run("kill %1; wait; echo gone")).output).toContain("gone");
  });

  test("works with programs that have a line editing of their own", async () => {
    await using box = await opened();
    await box.run("python3 -q", 1_000);
    expect((await box.line("6 * 7")).output).toContain("42\n>>> ");
    await box.line("import time; time.sleep(100)", SHORT_MS);
    const interrupted = await box.key("C-c");
    expect(interrupted.output).toContain("KeyboardInterrupt");
    expect(interrupted.running).toBe(true);
    expect(await box.line("exit(5)")).toMatchObject({ running: false, exitCode: 5 });
  });

  test("answers early when a program falls silent, and waits for one that is asked for more", async () => {
    await using box = await opened();
    await box.run("read x; sleep 5; echo late; read y", 100);
    const silent = await box.line("go", 20_000);
    expect(silent).toMatchObject({ output: "", running: true, timedOut: false });
    expect(silent.note).toContain(`silent for ${LIMITS.terminalTypedMs} ms`);
    expect(silent.ms).toBeLessThan(LIMITS.terminalTypedMs + 2_500);
    expect(await box.more(20_000)).toMatchObject({ output: "late\n", running: true });
  });

  test("takes 100 MB of output with bounded memory, and stops a flood that nobody reads", async () => {
    await using box = await opened();
    const flood = await box.run("head -c 100000000 /dev/zero | tr '\\0' z", 30_000);
    expect(flood).toMatchObject({ outputBytes: 100_000_000, truncated: true, running: false });
    expect(flood.raw.length).toBe(LIMITS.outputFileBytesMax);
    await box.run("yes", 100);
    expect(await box.key("C-c")).toMatchObject({ running: false, exitCode: 130 });
    expect((await box.run("echo next")).output).toBe("next\n");
  });

  test("refuses a line that a terminal would cut", async () => {
    await using box = await opened();
    await box.run("cat > /tmp/got", 100);
    expect((await box.line("x".repeat(5_000))).note).toContain("a terminal takes 4000 bytes");
    await box.line("y".repeat(3_900), SHORT_MS);
    await box.key("C-d");
    expect((await box.run("wc -c < /tmp/got")).output).toBe("3901\n");
  });

  test("rejects with the signal's reason when it aborts, and answers the next command", async () => {
    await using box = await opened();
    await box.run("true");
    const stop = new AbortController();
    const running = box.sandbox.terminal(
      { kind: "command", text: "sleep 100" },
      { timeoutMs: 60_000, signal: stop.signal },
    );
    stop.abort(new Error("by the test"));
    expect(running).rejects.toThrow("by the test");
    await running.catch(() => {});
    expect((await box.run("echo alive")).output).toBe("alive\n");
  });

  test("leaves shell, Python worker and files as they are", async () => {
    await using box = await opened();
    await box.run("echo kept > /tmp/kept; cd /tmp");
    const options = { timeoutMs: 5_000, signal: never };
    expect((await box.sandbox.shell("pwd; cat /tmp/kept; ls /proc/self/fd | wc -l", options)).output).toBe(
      "/workspace\nkept\n4\n",
    );
    expect((await box.sandbox.python("import os; sorted(os.listdir('/proc/self/fd'))[:3]", options)).output).toContain(
      "'0'",
    );
    expect((await box.run("ls /proc/self/fd | wc -l")).output).toBe("4\n");
  });
});

describe("a terminal whose agent", () => {
  test.each([
    ["turns the echo on", "stty echo"],
    ["makes the terminal raw", "stty raw"],
    ["sends C-c elsewhere", "stty -isig"],
    ["resets it", "stty sane; printf '\\033c\\033[2J'"],
    ["sets prompts", "PS1='$ ' PS2='> ' PS0='ps0'"],
    ["runs something at each prompt", "PROMPT_COMMAND='echo prompt'"],
    ["names functions printf, eval and stty", "printf() { :; }; eval() { :; }; stty() { :; }"],
    ["makes aliases", "shopt -s expand_aliases; alias eval=false printf=false builtin=false stty=false"],
    ["splits words at digits", "IFS=0123456789abcdef"],
    ["sends its output elsewhere", "exec > /dev/null 2>&1; exec > /dev/tty 2>&1"],
    ["prints marks of its own", "printf '\\n\\036%032x 0\\036' 1 > /dev/null"],
    ["leaves a background job that writes", "(sleep 0.1; echo late) & disown"],
    ["turns history expansion on", "set -H"],
    ["turns job control off", "set +m"],
  ])("%s answers as before", async (_, command) => {
    await using box = await opened();
    expect(await box.run(command)).toMatchObject({ running: false, note: null });
    const next = await box.run("echo 'alive !1'; (exit 7)");
    expect(next).toMatchObject({ exitCode: 7, running: false, note: null });
    expect(next.output.replace(/late\r?\n/, "").replaceAll("\r", "")).toBe("alive !1\n");
    await box.run("sleep 100", 200);
    expect(await box.key("C-c")).toMatchObject({ running: false });
  });

  test.each([
    ["exits", "exit 3", 3],
    ["replaces the shell", "exec false", 1],
    ["kills the shell", "kill -9 $$", 137],
    ["closes its input", "exec < /dev/null", 0],
    ["takes the terminal's master with it", "kill -9 $PPID; sleep 5", null],
    ["takes the supervisor with it", "kill -9 -1; exit 1", null],
  ])("%s gets a new one and is told", async (_, command, exitCode) => {
    await using box = await opened();
    const ended = await box.run(command);
    const next = await box.run("echo alive");
    expect(`${ended.note}${next.note}`).toContain("A new one was started: shell variables");
    if (exitCode !== null) expect(ended.exitCode).toBe(exitCode);
    expect(await box.run("echo alive")).toMatchObject({ output: "alive\n", exitCode: 0, note: null });
  });

  test("takes away what tells of an interrupt is asked at C-c", async () => {
    await using box = await opened();
    await box.run("PROMPT_COMMAND=; while :; do :; done", 200);
    expect(await box.key("C-c")).toMatchObject({ running: false, exitCode: 130 });
    expect((await box.run("echo alive")).output).toBe("alive\n");
  });

  test("ignores C-c keeps its program, and the model can go on asking", async () => {
    await using box = await opened();
    await box.run("bash -c 'trap \"\" INT; sleep 6; echo end'", 200);
    expect(await box.key("C-c")).toMatchObject({ running: true });
    expect(await box.more(20_000)).toMatchObject({ output: expect.stringContaining("end\n"), running: false });
  });

  test("fills the disk hears of it", async () => {
    await using box = await opened();
    await box.run("cat /dev/zero > /tmp/1; cat /dev/zero > /tmp/2");
    expect((await box.run(`echo ${"x".repeat(40_000)}`)).note).toContain("disk is full");
    await box.sandbox.shell("rm /tmp/1 /tmp/2", { timeoutMs: 5_000, signal: never });
    expect((await box.run("echo alive")).output).toBe("alive\n");
  });
});

describe("a terminal of an image", () => {
  test("without script(1) is opened by python3", async () => {
    await using box = await opened("no-script");
    expect(await box.run("command -v script; test -t 0 && stty size")).toMatchObject({
      output: "24 80\n",
      exitCode: 0,
    });
    await box.run("sleep 100", 200);
    expect(await box.key("C-c")).toMatchObject({ running: false, exitCode: 130 });
    expect(await box.run("exit 4")).toMatchObject({
      exitCode: 4,
      note: expect.stringContaining("A new one was started"),
    });
  });

  test("with neither is refused, and the sandbox goes on", async () => {
    await using box = await opened("neither");
    const refused = await box.run("echo x");
    expect(refused.note).toBe(
      "It was not run: the image has neither script(1) nor python3, of which a terminal needs one.",
    );
    expect((await box.run("echo x")).note).toContain("the image has neither");
    expect((await box.sandbox.shell("echo shell", { timeoutMs: 5_000, signal: never })).output).toBe("shell\n");
  });
});
