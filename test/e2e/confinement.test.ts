import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { readFileSync } from "node:fs";
import { startFakeVllm } from "../support/fake-vllm.ts";
import { leftSince, NOTHING, residue } from "../support/leaks.ts";
import { A_SHELL_TASK, bash } from "../support/pipeline.ts";
import { commandOf, type ServerProcess, startServerProcess } from "../support/server-process.ts";
import { aFolder } from "../support/store.ts";

setDefaultTimeout(120_000);

interface Trajectory {
  outcome: { end_reason: string; reward: number | null };
  branches: { turns: { tool_results: { output: string; exit_code: number | null; timed_out: boolean }[] }[] }[];
}

/** Runs one shell command as the agent of a job, then has it write its file. */
async function runAsAgent(
  server: ServerProcess,
  command: string,
  limits: Record<string, number> = {},
): Promise<Trajectory> {
  const task = {
    ...A_SHELL_TASK,
    id: `probe-${Bun.hash(command)}`,
    prompt: `RUN ${Buffer.from(command).toString("base64")} END`,
  };
  const body = JSON.stringify({ task, limits: { disk_bytes: 64 << 20, pids_max: 64, tool_ms: 4_000, ...limits } });
  const headers = { "content-type": "application/json" };
  const submitted = await fetch(`${server.url}/v1/jobs`, { method: "POST", headers, body });
  const { groups } = (await submitted.json()) as { groups: { job_ids: string[] }[] };
  const id = groups[0]?.job_ids[0] ?? "";
  await fetch(`${server.url}/v1/jobs/${id}?wait_s=60`);
  return (await (await fetch(`${server.url}/v1/jobs/${id}/trajectory`)).json()) as Trajectory;
}

const firstOutput = (trajectory: Trajectory) => trajectory.branches[0]?.turns[0]?.tool_results[0]?.output ?? "";

/** Runs the command that the prompt holds, then writes the file that is graded, then answers. */
const script = (prompt: string) => {
  const command = Buffer.from(/RUN (\S+) END/.exec(prompt)?.[1] ?? "", "base64").toString();
  return (
    [bash(command), bash("echo done > out.txt"), "Done."][prompt.split("<|start|>assistant\n").length - 2] ?? "Done."
  );
};

describe("an agent's sandbox, through the server", () => {
  test("shows nothing of the host and gives no power over it", async () => {
    await using model = startFakeVllm({ model: "policy", script, contextTokens: 1 << 20 });
    using folder = aFolder();
    const flags = ["--data", folder.path, "--backend", model.url];
    await using server = await startServerProcess(flags, {
      ROLLOUTD_TEST_SECRET: "swordfish",
      AWS_SECRET_ACCESS_KEY: "swordfish",
    });
    const port = new URL(server.url).port;
    const output = firstOutput(
      await runAsAgent(
        server,
        [
          "grep -E '^(Uid|Cap[A-Za-z]+|NoNewPrivs|Seccomp):' /proc/self/status",
          "cat /proc/self/uid_map",
          "(env; cat /proc/*/environ /proc/*/cmdline) 2>/dev/null | tr '\\0' '\\n' | grep -c '[s]wordfish'",
          "ls / /home /root /workspace",
          "ls -d /proc/[0-9]* | wc -l",
          "(echo x > /proc/sys/kernel/core_pattern) 2>&1",
          "(echo x > /usr/x) 2>&1",
          `(cat < /dev/tcp/127.0.0.1/${port}) 2>&1`,
          "(cat < /dev/tcp/10.0.0.1/80) 2>&1",
          "cat /etc/shadow /etc/machine-id /var/lib/dpkg/status 2>&1",
          "unshare -Ur true 2>&1; mount -t tmpfs x /mnt 2>&1 | head -1",
        ].join("; "),
      ),
    );
    const lines = output.split("\n");
    expect(lines).toContain("0"); // nobody's environment or command line holds the server's secret

    for (const set of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"])
      expect(output).toMatch(new RegExp(`${set}:\\t0+\\n`));
    expect(output).toContain("NoNewPrivs:\t1");
    expect(output).toContain("Seccomp:\t2");
    expect(output).not.toContain("swordfish");
    expect(output).toMatch(/core_pattern: (Permission denied|Read-only file system)/);
    expect(output).toMatch(/\/usr\/x: Read-only file system/);
    expect(output).toContain(`/dev/tcp/127.0.0.1/${port}: Connection refused`);
    expect(output).toContain("/dev/tcp/10.0.0.1/80: Network is unreachable");
    expect(output.match(/No such file or directory/g)?.length).toBeGreaterThanOrEqual(3);
    expect(output).toContain("Operation not permitted");
    expect(readFileSync("/proc/sys/kernel/core_pattern", "utf8")).not.toBe("x\n");
  });

  test("keeps a kernel uid that is not 0, whoever started the server", async () => {
    await using model = startFakeVllm({ model: "policy", script: () => bash("sleep 30") });
    using folder = aFolder();
    await using server = await startServerProcess(["--data", folder.path, "--backend", model.url]);
    const submitted = await fetch(`${server.url}/v1/jobs`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ task: A_SHELL_TASK }),
    });
    expect(submitted.status).toBe(202);
    const sleeper = () => server.processes().find((pid) => commandOf(pid).startsWith("sleep "));
    while (sleeper() === undefined) await new Promise((resolve) => setImmediate(resolve));
    const uids = /^Uid:\s+(.*)$/m.exec(readFileSync(`/proc/${sleeper()}/status`, "utf8"))?.[1]?.split(/\s+/);
    expect(uids).toHaveLength(4);
    expect(uids).not.toContain("0");
  });

  test("ends what is meant to bring the machine down, while a neighbour goes on undisturbed", async () => {
    const before = residue();
    {
      await using model = startFakeVllm({ model: "policy", script, contextTokens: 1 << 20 });
      using folder = aFolder();
      await using server = await startServerProcess(["--data", folder.path, "--backend", model.url, "--warm-max", "0"]);
      const [fork, disk, output, daemon, neighbour] = await Promise.all([
        runAsAgent(server, ":(){ :|:& };:"),
        runAsAgent(server, "head -c 10G /dev/zero > /workspace/big; ls -l /workspace/big"),
        runAsAgent(server, "head -c 1G /dev/zero | tr '\\0' x", { tool_ms: 30_000 }),
        runAsAgent(
          server,
          "trap '' TERM INT HUP; setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' & echo away",
        ),
        runAsAgent(server, "echo calm"),
      ]);
      expect(firstOutput(neighbour)).toContain("calm");
      expect(firstOutput(disk)).toContain("No space left on device");
      expect(firstOutput(output).length).toBeLessThan(20_000);
      expect(firstOutput(daemon)).toContain("away");
      for (const trajectory of [neighbour, output, daemon]) expect(trajectory.outcome.reward).toBe(1);
      for (const trajectory of [fork, disk]) expect(trajectory.outcome.reward).not.toBeNull();
      expect(server.processes().length).toBeLessThan(8); // launcher, namespace, init and the server: no sandbox
      expect(await server.end("SIGTERM")).toBe(0);
    }
    expect(await leftSince(before)).toEqual(NOTHING);
  });
});
