import { readFileSync } from "node:fs";
import { newNonce } from "../ids.ts";
import { type Fault, type Finding, finding } from "./finding.ts";
import { descendantsOf, innerPidOf } from "./process-tree.ts";
import type { SandboxHost, SandboxLimits } from "./sandbox.ts";

const PROBE_MS_MAX = 20_000;
const PROBE_LIMITS: SandboxLimits = {
  memoryBytes: 1 << 30,
  diskBytes: 16 << 20,
  inodesMax: 10_000,
  pidsMax: 32,
  openFilesMax: 1_024,
  fileBytes: 16 << 20,
  cpuMs: 60_000,
};
/** What bash and our own start put into an environment; everything else came from the server. */
const ENVIRONMENT_EXPECTED = ["HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "_"];
/** Files that nearly every machine has and no sandbox may see. */
const HOST_FILES = ["/etc/machine-id", "/etc/shadow", "/etc/fstab", "/var/lib/dpkg/status", "/boot", "/sys/kernel"];

/**
 * Starts one sandbox on `image` and checks from inside and outside that it confines. `serve` refuses to start when
 * one of the findings is broken. Never rejects: a sandbox that does not start is a finding too.
 */
export async function probeConfinement(host: SandboxHost, image: string): Promise<Finding[]> {
  const mark = newNonce();
  const signal = AbortSignal.timeout(PROBE_MS_MAX);
  try {
    await using sandbox = await host.open({ image, limits: PROBE_LIMITS, cwd: `/probe-${mark}` }, signal);
    const answer = await sandbox.shell(QUESTIONS, { timeoutMs: PROBE_MS_MAX, signal });
    const said = new Map(
      answer.output.split("\n").map((line) => {
        const at = line.indexOf("=");
        return [line.slice(0, at), line.slice(at + 1)] as const;
      }),
    );
    return [finding("sandbox", true, "starts and answers", NOT_CONFINED), kernelUid(mark), ...judge(said)];
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return [finding("sandbox", false, detail, NOT_STARTED)];
  }
}

/** What mends it is in the findings beside this one: those of `doctor`. */
const NOT_STARTED: Fault = { consequence: "no server starts", fix: null };
const NOT_CONFINED: Fault = {
  consequence: "an agent could reach this machine, so no server starts",
  fix: "a bug of this build: do not run it",
};

/** Asked of the shell inside; each answer is one `name=value` line. */
const QUESTIONS = `
while read -r key value; do
  case $key in CapEff:|CapBnd:|NoNewPrivs:|Seccomp:) echo "\${key%:}=$value" ;; esac
done </proc/self/status
echo "networks=$(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | tr '\\n' ' ')"
[ -w /proc/sys/kernel/core_pattern ] && echo core_pattern=writable || echo core_pattern=closed
echo "environment=$( (env; tr '\\0' '\\n' </proc/1/environ) | cut -d= -f1 | sort -u | tr '\\n' ' ')"
for file in ${HOST_FILES.join(" ")}; do [ -e "$file" ] && printf 'host_file=%s\\n' "$file"; done
touch /usr/written 2>/dev/null && echo usr=writable || echo usr=closed`;

/** What a question is about, before its answer. */
const NAMES: Readonly<Record<string, string>> = {
  networks: "interfaces:",
  core_pattern: "/proc/sys/kernel/core_pattern is",
  usr: "for writing it is",
};

function judge(said: ReadonlyMap<string, string>): Finding[] {
  const get = (key: string) => said.get(key) ?? "no answer";
  const equal = (check: string, key: string, wanted: string) => {
    const answer = get(key).trim();
    return finding(check, answer === wanted, `${NAMES[key] ?? `${key} is`} ${answer || "nothing"}`, NOT_CONFINED);
  };
  const names = get("environment").trim().split(/\s+/);
  const foreign = names.filter((name) => !ENVIRONMENT_EXPECTED.includes(name));
  return [
    equal("no capabilities", "CapEff", "0000000000000000"),
    equal("no capabilities to gain", "CapBnd", "0000000000000000"),
    equal("no new privileges", "NoNewPrivs", "1"),
    equal("seccomp filter", "Seccomp", "2"),
    equal("no network", "networks", "lo"),
    equal("kernel settings closed", "core_pattern", "closed"),
    equal("/usr read-only", "usr", "closed"),
    finding("no host files", !said.has("host_file"), said.get("host_file") ?? "none seen", NOT_CONFINED),
    finding("clean environment", foreign.length === 0, foreign.join(" ") || "only our own names", NOT_CONFINED),
  ];
}

/** Seen from outside: inside every uid looks like 0. */
function kernelUid(mark: string): Finding {
  const init = descendantsOf(process.pid).find((pid) => innerPidOf(pid) === 1 && textOf(pid, "cmdline").includes(mark));
  const uid = init === undefined ? null : /^Uid:\s+(\d+)/m.exec(textOf(init, "status"))?.[1];
  const ok = uid !== null && uid !== undefined && uid !== "0";
  return finding("kernel uid", ok, `the sandbox runs as ${uid ?? "an unknown uid"}`, {
    consequence: "an agent could change settings of this machine's kernel",
    fix: "set --sandbox-uid to an unprivileged uid",
  });
}

function textOf(pid: number, name: "cmdline" | "status"): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}
