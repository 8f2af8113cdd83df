import { existsSync, readFileSync } from "node:fs";
import { newNonce } from "../ids.ts";
import { BWRAP_VERSION_MIN, type Bwrap } from "./find-bwrap.ts";
import { outputOf } from "./process.ts";
import { descendantsOf, innerPidOf } from "./process-tree.ts";
import type { SandboxHost, SandboxLimits } from "./sandbox.ts";

/** One thing that was looked at. A `fix` is a command or setting; null when all is well or nothing can be said. */
export interface Finding {
  check: string;
  ok: boolean;
  detail: string;
  fix: string | null;
}

const PROGRAM_MS_MAX = 5_000;
const PROBE_MS_MAX = 20_000;
const PROBE_LIMITS: SandboxLimits = { memoryBytes: 1 << 30, diskBytes: 16 << 20, pidsMax: 32 };
const PROGRAMS = {
  "/usr/bin/unshare": "util-linux",
  "/usr/bin/setpriv": "util-linux",
  "/usr/bin/prlimit": "util-linux",
  "/bin/bash": "bash",
  "/usr/bin/python3": "python3",
} as const;
const APPARMOR_SWITCH = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
/** What bash and our own start put into an environment; everything else came from the server. */
const ENVIRONMENT_EXPECTED = ["HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "_"];
/** Files that nearly every machine has and no sandbox may see. */
const HOST_FILES = ["/etc/machine-id", "/etc/shadow", "/etc/fstab", "/var/lib/dpkg/status", "/boot", "/sys/kernel"];

/** Looks at the machine without starting a sandbox: for `doctor`, and to explain why one does not start. */
export async function inspectMachine(bwrap: Bwrap | null, sandboxUid: number | null): Promise<Finding[]> {
  return [
    finding(
      "bubblewrap",
      bwrap !== null,
      bwrap === null ? "none that is new enough" : `${bwrap.version}, ${bwrap.path}`,
      {
        fix: `install bubblewrap ${BWRAP_VERSION_MIN} or newer, or run as root in the clone: npx --yes bun@1.4.4 scripts/setup/bubblewrap.ts`,
      },
    ),
    ...(bwrap === null ? [] : [await findReachable(bwrap, sandboxUid)]),
    await findNamespaces(sandboxUid),
    findPrograms(),
    findRestriction(),
    finding("memory limit", true, "binds each process (RLIMIT_AS): no cgroup is used", { fix: "" }),
  ];
}

/**
 * Starts one sandbox on `image` and checks from inside and outside that it confines. `serve` refuses to start when
 * one of the findings is not ok. Never rejects: a sandbox that does not start is a finding too.
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
    return [finding("sandbox", true, "starts and answers", { fix: "" }), kernelUid(mark), ...judge(said)];
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error);
    return [finding("sandbox", false, detail, { fix: "rolloutd doctor names what this machine lacks" })];
  }
}

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

function judge(said: ReadonlyMap<string, string>): Finding[] {
  const get = (key: string) => said.get(key) ?? "no answer";
  const equal = (check: string, key: string, wanted: string) =>
    finding(check, get(key).trim() === wanted, `${key} is ${get(key)}`, { fix: "a bug of this build: do not run it" });
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
    finding("no host files", !said.has("host_file"), said.get("host_file") ?? "none seen", {
      fix: "a bug of this build: do not run it",
    }),
    finding("clean environment", foreign.length === 0, foreign.join(" ") || "only our own names", {
      fix: "a bug of this build: do not run it",
    }),
  ];
}

/** Seen from outside: inside every uid looks like 0. */
function kernelUid(mark: string): Finding {
  const init = descendantsOf(process.pid).find((pid) => innerPidOf(pid) === 1 && textOf(pid, "cmdline").includes(mark));
  const uid = init === undefined ? null : /^Uid:\s+(\d+)/m.exec(textOf(init, "status"))?.[1];
  const ok = uid !== null && uid !== undefined && uid !== "0";
  return finding("kernel uid", ok, `the sandbox runs as ${uid ?? "an unknown uid"}`, { fix: "set --sandbox-uid" });
}

async function findReachable(bwrap: Bwrap, sandboxUid: number | null): Promise<Finding> {
  const ran = await outputOf([...asUid(sandboxUid), bwrap.path, "--version"], PROGRAM_MS_MAX);
  const who = sandboxUid === null ? "this user" : `uid ${sandboxUid}`;
  return finding("bubblewrap reachable", ran?.exitCode === 0, `by ${who}`, {
    fix: "put it where others may reach it, such as /var/cache/rolloutd or /usr/local/bin",
  });
}

async function findNamespaces(sandboxUid: number | null): Promise<Finding> {
  const argv = [...asUid(sandboxUid), "/usr/bin/unshare", "--user", "--map-root-user", "--mount", "/bin/true"];
  const ran = await outputOf(argv, PROGRAM_MS_MAX);
  return finding("user namespaces", ran?.exitCode === 0, ran?.stderr.trim() || "can be made", {
    fix: "sysctl -w user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1, and see the AppArmor line",
  });
}

/** Whether the programs that sandboxes start are there. Without python3 a right solution would be graded as wrong. */
export function findPrograms(programs: Readonly<Record<string, string>> = PROGRAMS): Finding {
  const missing = Object.entries(programs).filter(([file]) => !existsSync(file));
  const packages = [...new Set(missing.map(([, name]) => name))].join(" ");
  const detail = missing.length === 0 ? "all there" : `${missing.map(([file]) => file).join(", ")} missing`;
  return finding("programs", missing.length === 0, detail, { fix: `apt-get install ${packages}` });
}

function findRestriction(): Finding {
  const restricts = existsSync(APPARMOR_SWITCH) && readFileSync(APPARMOR_SWITCH, "latin1").trim() === "1";
  return finding(
    "AppArmor",
    !restricts,
    restricts ? "refuses user namespaces to ordinary programs" : "does not interfere",
    {
      fix: "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    },
  );
}

function asUid(uid: number | null): string[] {
  return uid === null ? [] : ["/usr/bin/setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--"];
}

function textOf(pid: number, name: "cmdline" | "status"): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1");
  } catch {
    return "";
  }
}

function finding(check: string, ok: boolean, detail: string, { fix }: { fix: string }): Finding {
  return { check, ok, detail, fix: ok ? null : fix };
}
