import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmodSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { bundledBwrapPath } from "../../src/sandbox/bundled-bwrap.ts";
import { aHome, buildForTests, type Home } from "../support/binary.ts";
import type { FakeServer } from "../support/fake-model.ts";
import { startFakeVllm } from "../support/fake-vllm.ts";
import { leftSince, NOTHING, type Residue, residue } from "../support/leaks.ts";
import { A_SHELL_TASK, A_WORD_TASK, bash } from "../support/pipeline.ts";
import { followServer, type ServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";
import { tokenizerFolder } from "../support/tokenizer-folder.ts";

setDefaultTimeout(60_000);

const NOBODY = 65_534;
const isRoot = process.getuid?.() === 0;
const users = isRoot
  ? [
      { who: "root", uid: 0 },
      { who: "an ordinary user", uid: NOBODY },
    ]
  : [{ who: "the user of the tests", uid: process.getuid?.() ?? 0 }];

const binary = await buildForTests();
if (binary.missing !== null) console.log(`the binary's tests are skipped: ${binary.missing}`);
afterAll(() => {
  if (binary.path !== null) rmSync(dirname(binary.path), { recursive: true, force: true });
});

/** The agent of the shell task writes its file in two turns; the word problem is answered right. */
const script = (prompt: string) => {
  if (!prompt.includes("out.txt")) return "ANSWER: 7";
  return prompt.split("<|start|>assistant\n").length === 2 ? bash("echo done > out.txt") : "Written.";
};

/** Hides libc.so and libc.a, which only a compiler's packages bring, in a mount namespace; then runs its arguments. */
const WITHOUT_COMPILER = `
for folder in /usr/lib/*-linux-gnu; do
  [ -e "$folder/libc.so" ] || continue
  mkdir -p "$0/upper" "$0/work"
  mount -t overlay overlay -o "lowerdir=$folder,upperdir=$0/upper,workdir=$0/work" "$folder"
  rm -f "$folder/libc.so" "$folder/libc.a"
done
exec "$@"`;

/** A user namespace in which no further one can be made: the setting binds those below it alone. */
const WITHOUT_NAMESPACES = [
  "/usr/bin/unshare",
  "--user",
  "--map-current-user",
  "--keep-caps",
  "/bin/sh",
  "-c",
  'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"',
  "sh",
];

describe.skipIf(binary.path === null || !isRoot)("the binary on a machine without a compiler", () => {
  test("confines sandboxes all the same", async () => {
    using home = aHome(binary.path ?? "", 0);
    using layers = aFolder();
    const hidden = ["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", WITHOUT_COMPILER, layers.path];
    const child = Bun.spawn([...hidden, ...home.command("doctor")], {
      cwd: home.folder,
      env: home.env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    const out = await new Response(child.stdout).text();
    expect({ code: await child.exited, out }).toMatchObject({ code: 0, out: expect.stringContaining("can confine") });
  });
});

describe.skipIf(binary.path === null).each(users)("the binary alone in an empty folder, started by $who", ({ uid }) => {
  let home: Home;
  let before: Residue;
  beforeAll(() => {
    before = residue();
    home = aHome(binary.path ?? "", uid);
  });
  afterAll(() => home[Symbol.dispose]());

  test("says its version, commit, date and what is inside", async () => {
    const { out, code } = await home.run("version");
    expect(code).toBe(0);
    expect(out).toMatch(
      /^rolloutd \d+\.\d+\.\d+\nbuild +commit \S+, \d{4}-\S+Z\nbun +\d\S+\nplatform +linux-\w+\nbubblewrap 0\.\d+\.\d+, inside\n$/,
    );
    expect((await home.run("version", "--licenses")).out).toContain("LGPL-2.0-or-later");
  });

  test("finds as doctor that its bubblewrap confines, and leaves nothing where there is no data yet", async () => {
    const { out, code } = await home.run("doctor");
    expect({ code, out }).toMatchObject({ code: 0, out: expect.stringContaining("can confine") });
    expect(out).toContain(`the one inside this program, which serve unpacks to ${bundledBwrapPath(home.data)}`);
    expect(readdirSync(home.folder)).toEqual(["rolloutd"]);
  });

  test("unpacks its bubblewrap where the data lies, and grades a code task with the judge inside", async () => {
    const task = {
      id: "double",
      handler: "code",
      prompt: "p",
      tests: [{ kind: "assert", code: "assert f(2) == 4" }],
      reference: { files: { "/workspace/solution.py": "def f(x): return x * 2\n" } },
    };
    writeFileSync(join(home.folder, "check.jsonl"), JSON.stringify(task));
    const { out, code } = await home.run("task", "check", "check.jsonl");
    expect({ code, out }).toMatchObject({ code: 0 });
    expect(statSync(bundledBwrapPath(home.data)).isFile()).toBe(true);
    expect(statSync(home.data).mode & 0o007).toBe(0);
  });

  test("says what to do where user namespaces are off, and serves nothing there", async () => {
    const tried = async (...args: string[]) => {
      const command = home.command(...args);
      const child = Bun.spawn(command.toSpliced(command.length - args.length - 1, 0, ...WITHOUT_NAMESPACES), {
        cwd: home.folder,
        env: home.env,
        stdio: ["ignore", "pipe", "pipe"],
      });
      const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
      return { out, err, code: await child.exited };
    };
    const doctor = await tried("doctor");
    expect([doctor.code, doctor.err]).toEqual([1, ""]);
    expect(doctor.out).toContain("no server starts here");
    // Root, alone in its namespace, cannot even become the sandboxes' user.
    const fix = uid === 0 ? "/proc/self/uid_map" : "-> sysctl -w user.max_user_namespaces=65536";
    expect(doctor.out).toContain(fix);
    const serve = await tried("serve", "--port", "0");
    expect(serve.code).not.toBe(0);
    expect(serve.err).toMatch(/user namespaces|doctor/);
    expect(serve.err).not.toContain("    at ");
  });

  test("replaces an unpacked bubblewrap whose bytes are not its own", async () => {
    const path = bundledBwrapPath(home.data);
    const bytes = readFileSync(path);
    const forged = Buffer.from(bytes);
    forged.write("evil", forged.length - 4);
    writeFileSync(path, forged);
    expect((await home.run("doctor")).code).toBe(0);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  test("obeys --bwrap rather than the one inside, and refuses when that is no bubblewrap", async () => {
    const refused = await home.run("serve", "--port", "0", "--bwrap", "/bin/true");
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining("--bwrap /bin/true: is no bubblewrap") });
  });

  describe("serving", () => {
    let model: FakeServer;
    let server: ServerProcess;
    let startMs: number;
    beforeAll(async () => {
      model = startFakeVllm({ model: "small", script });
      writeFileSync(
        join(home.folder, "tasks.jsonl"),
        `${JSON.stringify(A_WORD_TASK)}\n${JSON.stringify(A_SHELL_TASK)}\n`,
      );
      const start = performance.now();
      const child = Bun.spawn(home.command("serve", "--port", "0"), {
        cwd: home.folder,
        env: home.env,
        stdio: ["ignore", "inherit", "pipe"],
      });
      server = await followServer(child, join(home.folder, "rolloutd"));
      expect((await fetch(`${server.url}/healthz`)).ok).toBe(true);
      startMs = performance.now() - start;
      home.env.ROLLOUTD_URL = server.url;
    });
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
      await model[Symbol.asyncDispose]();
    });

    test("answers soon, in little memory, with Bun's limit of requests lifted", () => {
      const pid = server.serverPid();
      const rssKb = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
      const size = statSync(join(home.folder, "rolloutd")).size;
      console.log(
        `binary ${(size / 1e6).toFixed(1)} MB, /healthz ${startMs.toFixed(0)} ms after the start, RSS ${(Number(rssKb) / 1024).toFixed(1)} MiB`,
      );
      expect(readFileSync(`/proc/${pid}/environ`, "latin1")).toContain("BUN_CONFIG_MAX_HTTP_REQUESTS=8192");
    });

    test("has the pages of /docs inside", async () => {
      expect(await (await fetch(`${server.url}/docs`)).text()).toContain("swagger-ui");
      expect((await (await fetch(`${server.url}/docs/swagger-ui-bundle.js`)).bytes()).length).toBeGreaterThan(1e6);
    });

    test("runs, shows and verifies jobs", async () => {
      expect(await home.run("backend", "add", model.url)).toMatchObject({ code: 0 });
      const submitted = await home.run("submit", "tasks.jsonl", "--n", "2", "--watch", "--out", "results.jsonl");
      expect(submitted).toMatchObject({ code: 0, out: expect.stringContaining("4 jobs, mean reward 1") });
      const job = /"id":"(job_[^"]+)"/.exec(readFileSync(join(home.folder, "results.jsonl"), "utf8"))?.[1] ?? "";
      expect((await home.run("show", job)).out).toContain("ledger exact");
      for (const path of ["results.jsonl", "data"]) {
        expect(await home.run("verify", path)).toMatchObject({ code: 0 });
      }
    });

    test("reads a tokenizer in its Worker", async () => {
      await using tokenizer = await tokenizerFolder(null);
      chmodSync(tokenizer.path, 0o755); // the server may be another user
      await using other = startFakeVllm({ model: "other", script });
      const { out } = await home.run("backend", "add", other.url, "--tokenizer", tokenizer.path);
      expect(out).toContain("renders otherwise: a turn ends with token 2 here");
    });

    test("drains on SIGTERM, ends with 0 and leaves nothing", async () => {
      expect(await server.end("SIGTERM")).toBe(0);
      expect(await leftSince(before)).toEqual(NOTHING);
      expect(server.log()).toContain("server:stopped");
    });
  });
});
