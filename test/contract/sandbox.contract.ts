import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { systemClock } from "../../src/clock.ts";
import { RolloutError } from "../../src/errors.ts";
import type { CommandResult, Sandbox, SandboxHost, SandboxOptions } from "../../src/sandbox/sandbox.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";

setDefaultTimeout(60_000);

export interface SandboxContract {
  createHost: () => Promise<SandboxHost>;
  /** An image that `open` accepts, and limits that its own start fits in. */
  options: SandboxOptions;
}

const never = new AbortController().signal;
const bytes = (text: string) => new TextEncoder().encode(text);

/** What every implementation of the sandbox port keeps. */
export function sandboxContract(name: string, { createHost, options }: SandboxContract): void {
  describe(name, () => {
    let host: SandboxHost;
    let sandbox: Sandbox;
    const before = residue();
    const sh = (command: string, timeoutMs = 5_000) => sandbox.shell(command, { timeoutMs, signal: never });
    const py = (code: string, timeoutMs = 5_000) => sandbox.python(code, { timeoutMs, signal: never });
    const facts = ({ output, exitCode, timedOut }: CommandResult) => ({ output, exitCode, timedOut });

    beforeAll(async () => {
      host = await createHost();
      sandbox = await host.open(options, never);
    });
    afterAll(async () => {
      await host.close();
      expect(host.live).toBe(0);
      expect(await leftSince(before)).toEqual(NOTHING);
    });

    describe("shell", () => {
      test("gives output and exit code apart", async () => {
        expect(facts(await sh("echo out; echo err >&2; (exit 7)"))).toEqual({
          output: "out\nerr\n",
          exitCode: 7,
          timedOut: false,
        });
      });

      test("keeps variables, functions and the working directory between commands", async () => {
        await sh("export KEPT=yes; cd /tmp; f() { echo called; }");
        expect((await sh('echo "$KEPT"; pwd; f')).output).toBe("yes\n/tmp\ncalled\n");
        await sh("cd /workspace");
      });

      test.each([
        ["ends without a newline", "printf abc", "abc"],
        ["writes nothing", "true", ""],
        ["reads stdin, which is empty", "cat; read line; echo got:$line", "got:\n"],
        ["holds quotes, a here-document and line breaks", "cat <<'X'\na'b\"c\nX\necho 'd\"e'", 'a\'b"c\nd"e\n'],
        ["is only a comment", "# nothing", ""],
        ["writes to /dev/stdout by name", "echo x > /dev/stdout; echo y | tee /dev/stderr", "x\ny\ny\n"],
        ["ends in a backslash", "echo a \\", "a \\\n"],
      ])("answers a command that %s", async (_, command, output) => {
        expect(facts(await sh(command))).toEqual({ output, exitCode: 0, timedOut: false });
      });

      test.each(["echo 'unterminated", "for i in 1 2", "if", "}"])("answers %j and goes on", async (command) => {
        const broken = await sh(command);
        expect(broken.exitCode).not.toBe(0);
        expect((await sh("echo next")).output).toBe("next\n");
      });

      test("is not deceived by an end mark that a command prints", async () => {
        const forged = await sh("printf '\\n\\036%s 0\\036' 0123456789abcdef0123456789abcdef; echo after; (exit 5)");
        expect(forged.exitCode).toBe(5);
        expect(forged.output).toEndWith("after\n");
      });

      test("answers 60 commands in a row, each with its own output", async () => {
        for (let i = 0; i < 60; i += 1) expect((await sh(`echo ${i}; /bin/true`)).output).toBe(`${i}\n`);
      });

      test("takes binary output and a command of 200 kB", async () => {
        expect((await sh("head -c 3000 /dev/urandom")).outputBytes).toBe(3_000);
        expect((await sh(`echo '${"x".repeat(200_000)}' | wc -c`)).output).toBe("200001\n");
      });

      test("keeps head and tail of a long output and counts all of it", async () => {
        const long = await sh("echo first; seq 1 1000000; echo last");
        expect(long).toMatchObject({ truncated: true, outputBytes: 6_888_896 + 11, exitCode: 0 });
        expect(long.output).toStartWith("first\n1\n2\n");
        expect(long.output).toEndWith("1000000\nlast\n");
        expect(long.output.length).toBeLessThan(1_200_000);
      });

      test.each([
        ["sleeps", "sleep 1000"],
        ["loops in the shell itself", "while :; do :; done"],
        ["starts processes without end", "(while :; do sleep 0.01; done)"],
      ])("interrupts a command that %s and keeps the shell", async (_, command) => {
        await sh("STILL=here");
        expect(await sh(command, 150)).toMatchObject({ timedOut: true });
        expect((await sh("echo $STILL")).output).toBe("here\n");
      });

      test("kills a command that ignores the interrupt and says so", async () => {
        const result = await sh("echo begun; bash -c 'trap \"\" INT TERM; while :; do sleep 0.05; done'", 150);
        expect(result).toMatchObject({ timedOut: true });
        expect(result.output).toStartWith("begun\n");
        expect(result.note).toContain("killed");
        expect((await sh("echo $STILL")).output).toBe("here\n");
      });

      test.each([
        ["exit 3", 3],
        ["exec false", 1],
        ["kill -9 $$", 137],
      ])("starts a new shell after %s and says so", async (command, exitCode) => {
        const result = await sh(`echo before; ${command}`);
        expect(result.exitCode).toBe(exitCode);
        expect(result.output).toStartWith("before\n");
        expect(result.note).toContain("new one was started");
        expect(facts(await sh("echo alive"))).toEqual({ output: "alive\n", exitCode: 0, timedOut: false });
      });

      test("goes on after a command that kills all processes it can reach", async () => {
        await sh("kill -9 -1");
        expect((await sh("echo alive")).output).toBe("alive\n");
        expect((await sh("exit 4")).note).toContain("new one was started");
        expect((await sh("echo again")).output).toBe("again\n");
      });

      test("rejects with the signal's reason when it aborts, and answers the next command", async () => {
        const stop = new AbortController();
        const running = sandbox.shell("touch /tmp/begun; sleep 1000", { timeoutMs: 60_000, signal: stop.signal });
        while ((await sandbox.readFile("/tmp/begun", 1)) === null) await systemClock.sleep(1);
        stop.abort(new RolloutError("cancelled", "by the test"));
        expect(running).rejects.toThrow("cancelled");
        await running.catch(() => {});
        expect((await sh("echo alive")).output).toBe("alive\n");
      });
    });

    describe("python", () => {
      test("shows the last expression and what was printed, and keeps variables", async () => {
        expect(facts(await py("x = 6\nprint('hi')\nx * 7"))).toEqual({
          output: "hi\n42\n",
          exitCode: 0,
          timedOut: false,
        });
        expect((await py("x")).output).toBe("6\n");
      });

      test("shows a traceback of the cell's own frames only", async () => {
        const result = await py("def f():\n    return 1 / 0\nf()");
        expect(result.exitCode).toBe(1);
        expect(result.output).toContain("line 2, in f");
        expect(result.output).toEndWith("ZeroDivisionError: division by zero\n");
        expect(result.output).not.toContain("worker");
      });

      test("shows a syntax error, input at its end, and what child processes write", async () => {
        expect((await py("for")).output).toContain("SyntaxError");
        expect((await py("input()")).output).toContain("EOFError");
        expect((await py("import os\nprint('a')\n_ = os.system('echo b')\nprint('c')")).output).toBe("a\nb\nc\n");
      });

      test("interrupts a cell at its time limit and keeps the variables", async () => {
        await py("kept = 'yes'");
        expect(await py("while True: pass", 150)).toMatchObject({ timedOut: true, exitCode: 130 });
        expect((await py("kept")).output).toBe("'yes'\n");
      });

      test("starts a new worker after a crash and says so", async () => {
        const crash = await py("import os\nos._exit(9)");
        expect(crash.exitCode).toBe(9);
        expect(crash.note).toContain("new one was started");
        expect((await py("kept")).output).toContain("NameError");
      });

      test("ends a cell, not the worker, on exit", async () => {
        await py("kept = 1");
        expect((await py("exit(3)")).exitCode).toBe(3);
        expect((await py("kept")).output).toBe("1\n");
      });

      test("bounds its output and takes a long cell", async () => {
        expect(await py("print('y' * 5_000_000)")).toMatchObject({ truncated: true, outputBytes: 5_000_001 });
        expect((await py(`len('${"x".repeat(100_000)}')`)).output).toBe("100000\n");
      });
    });

    describe("files", () => {
      test("are read as they were written, folders made, mode set", async () => {
        await sandbox.writeFile({ path: "/workspace/a/b.sh", bytes: bytes("echo ran\n"), mode: 0o755 }, never);
        expect((await sh("./a/b.sh; rm -f a/b.sh")).output).toBe("ran\n");
        const every = Uint8Array.from({ length: 256 * 1024 }, (_, i) => i % 251);
        await sandbox.writeFile({ path: "/tmp/every", bytes: every }, never);
        expect(await sandbox.readFile("/tmp/every", 1 << 20)).toEqual(every);
      });

      test("are null when missing, a folder or a FIFO, and refused over the cap", async () => {
        await sh("mkfifo /tmp/fifo; truncate -s 20M /tmp/sparse");
        for (const path of ["/nope", "/workspace", "/tmp/fifo", "/dev/zero", "/proc/self/environ"]) {
          expect(await sandbox.readFile(path, 1_000)).toBeNull();
        }
        expect(sandbox.readFile("/tmp/sparse", 1_000)).rejects.toThrow("sandbox_limit");
      });

      test("can be read after all processes were killed", async () => {
        await using own = await host.open(
          { ...options, files: [{ path: "/workspace/given", bytes: bytes("x") }] },
          never,
        );
        await own.shell("echo result > answer; setsid sleep 1000 &", { timeoutMs: 5_000, signal: never });
        await own.killProcesses();
        expect(await own.readFile("/workspace/answer", 100)).toEqual(bytes("result\n"));
        expect(await own.readFile("/workspace/given", 100)).toEqual(bytes("x"));
        expect(own.shell("true", { timeoutMs: 1_000, signal: never })).rejects.toThrow("sandbox_lost");
      });
    });

    describe("open and close", () => {
      test("give sandboxes that do not see each other, in the asked folder", async () => {
        await using first = await host.open({ ...options, cwd: "/somewhere/deep" }, never);
        await using second = await host.open(options, never);
        const run = (box: Sandbox, command: string) => box.shell(command, { timeoutMs: 5_000, signal: never });
        const [a, b] = await Promise.all([
          run(first, "pwd; echo 1 > /tmp/mine; echo 1 > /dev/shm/mine; ls /tmp /dev/shm"),
          run(second, "pwd; sleep 0.05; ls /tmp /dev/shm; ls -d /proc/[0-9]* | wc -l"),
        ]);
        expect(a.output).toBe("/somewhere/deep\n/dev/shm:\nmine\n\n/tmp:\nmine\n");
        expect(b.output).toStartWith("/workspace\n/dev/shm:\n\n/tmp:\n");
        expect(Number(b.output.trim().split("\n").at(-1))).toBeLessThan(10);
      });

      test("refuse an unknown image and an aborted start, and leave nothing", async () => {
        const now = residue();
        expect(host.open({ ...options, image: "nope" }, never)).rejects.toThrow("image_missing");
        for (let i = 0; i < 10; i += 1) {
          const stop = new AbortController();
          const opening = host.open(options, stop.signal);
          await systemClock.sleep(i);
          stop.abort(new RolloutError("cancelled", "by the test"));
          await opening.then(
            (box) => box.close(),
            () => {},
          );
        }
        expect(await leftSince(now)).toEqual(NOTHING);
      });

      test("end with closed, twice without harm, within 50 ms at the median", async () => {
        const times: number[] = [];
        for (let i = 0; i < 9; i += 1) {
          const box = await host.open(options, never);
          const start = performance.now();
          await Promise.all([box.close(), box.close()]);
          times.push(performance.now() - start);
          expect(await box.ended).toBe("closed");
        }
        expect(times.sort((a, b) => a - b)[4]).toBeLessThan(50);
      });
    });

    describe("start", () => {
      const program = (argv: string[], more = {}) => host.start({ ...options, argv, ...more }, never);

      test("runs a program with its own stdin, stdout, stderr and environment", async () => {
        await using run = await program(
          [
            "python3",
            "-c",
            "import os,sys\nprint(input().upper(), os.environ['GIVEN'])\nprint('e', file=sys.stderr)\nprint(open('/workspace/f').read())",
          ],
          { env: { GIVEN: "value" }, files: [{ path: "/workspace/f", bytes: bytes("file") }] },
        );
        await run.write("hello\n");
        run.closeStdin();
        const result = await run.wait(never);
        expect(result).toMatchObject({ stdout: "HELLO value\nfile\n", stderr: "e\n", exitCode: 0, signal: null });
        expect(await run.ended).toBe("closed");
      });

      test("answers line by line", async () => {
        await using run = await program(["python3", "-u", "-c", "for l in iter(input, 'end'): print(l * 2)"]);
        await run.write("a\nb\n");
        expect(await run.readLine(never)).toBe("aa");
        expect(await run.readLine(never)).toBe("bb");
        await run.write("end\n");
        expect(await run.readLine(never)).toBeNull();
      });

      test.each([
        ["an exit code", "exit 9", { exitCode: 9, signal: null }],
        ["a signal", "kill -SEGV $$", { exitCode: null, signal: "SIGSEGV" }],
      ])("tells %s", async (_, script, end) => {
        await using run = await program(["/bin/bash", "-c", script]);
        expect(await run.wait(never)).toMatchObject(end);
      });

      test("takes 5 MB of stdin that nobody reads and ends at close", async () => {
        await using run = await program(["sleep", "1000"]);
        const writing = run.write(new Uint8Array(5_000_000));
        await run.close();
        await writing;
      });

      test("keeps the head of each output and lets the program run on", async () => {
        await using run = await program(["/bin/bash", "-c", "seq 1 400000; seq 1 400000 >&2"]);
        const result = await run.wait(never);
        expect(result).toMatchObject({ exitCode: 0, stdoutTruncated: true });
        expect(result.stdout).toStartWith("1\n2\n");
        expect(result.stdout.length).toBe(1 << 20);
        expect(result.stderr.length).toBe(1 << 20);
      });

      test("ends what the program left running", async () => {
        const now = residue();
        await using run = await program(["/bin/bash", "-c", "setsid sleep 1000 & echo done"]);
        expect((await run.wait(never)).stdout).toBe("done\n");
        expect(await leftSince(now)).toEqual(NOTHING);
      });
    });
  });
}
