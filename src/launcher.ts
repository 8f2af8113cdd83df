import { accessSync, constants, fstatSync, readFileSync } from "node:fs";
import { makeNonBlocking } from "./libc.ts";

/**
 * Puts the server into a PID namespace of its own, so that the kernel ends everything it started when it ends,
 * however it ends:
 *
 *   launcher     sh, with the PID that the user started: passes TERM, INT, HUP on as TERM, gives the exit code
 *    └ unshare   dies with the launcher (parent-death signal) and takes init with it (--kill-child)
 *       └ init   sh, PID 1 of the namespace: reaps orphans, ends when the server ends
 *          └ server
 *
 * Whichever of the four is killed, init dies, and with it all that is in the namespace. Second line: the server holds
 * the read end of a pipe whose write end only the launcher has, and ends when that closes.
 */

const INSIDE = "--inside-namespace";
const INIT_NAME = "rolloutd-init";
const LIFE_FD = 7;
/** Bun's default is 256: with more turns in flight than that, the rest would wait in Bun's own queue. */
const HTTP_REQUESTS_MAX = "8192";
const PROGRAMS = ["/bin/sh", "/usr/bin/env", "/usr/bin/unshare", "/usr/bin/setpriv", "/usr/bin/setsid"];

/**
 * A signal that comes in the moment of the child's end makes `wait` answer 128 and its number, with the child reaped: then
 * the next `wait` has its exit code. It knows no such child (127) when the first one had it already.
 */
const LAST_WORD = (child: string) => `wait $${child} 2>/dev/null
  again=$?
  [ $again = 127 ] || code=$again
  exit $code`;

/**
 * A here-document of sh is a pipe, and /proc gives its write end: so descriptors 7 and 8 are a pipe without a name
 * (Bun's execve closes all but 0, 1 and 2, so it cannot bring one).
 * A bwrap shares the server's process group: `setsid` keeps a Ctrl-C of the terminal from it. Init would ignore a TERM
 * that comes before its trap is set (bit 0x4000 of SigCgt): nothing runs yet then, so all is killed.
 */
const LAUNCHER = `
why=$(unshare $ROLLOUTD_FLAGS --pid --fork --mount-proc -- true 2>&1) || {
  echo "rolloutd: no PID namespace can be made here ($why): $ROLLOUTD_REFUSED" >&2
  exit 2
}
export ROLLOUTD_LAUNCHER=$$
exec 7<<END
alive
END
exec 8>/proc/self/fd/7 3<&0
setsid setpriv --pdeathsig KILL -- /bin/sh -c "$ROLLOUTD_NAMESPACE" rolloutd-namespace "$@" <&3 3<&- 8>&- &
child=$!
exec 7<&-
forward() {
  init= caught=
  read -r init _ </proc/$child/task/$child/children
  while read -r key value; do [ "$key" = SigCgt: ] && caught=$value; done </proc/$init/status
  case $caught in *[4-7c-f]???) kill -TERM $init ;; *) kill -KILL $child ;; esac
}
trap forward TERM INT HUP
while :; do
  wait $child
  code=$?
  kill -0 $child 2>/dev/null && continue
  ${LAST_WORD("child")}
done`;

/**
 * The parent-death signal is not yet set between fork and prctl, so the parent is looked at afterwards; descriptor 9
 * keeps a view of the outer /proc for the same question one step further in.
 */
const NAMESPACE = `
[ "$PPID" = "$ROLLOUTD_LAUNCHER" ] || exit 137
export ROLLOUTD_UNSHARE=$$
exec 9</proc
exec unshare $ROLLOUTD_FLAGS --pid --fork --kill-child --mount-proc -- /bin/sh -c "$ROLLOUTD_INIT" ${INIT_NAME} "$@"`;

/**
 * `&` of sh makes INT and QUIT ignored in its children for good, hence `env --default-signal`. A server that has no
 * handler for TERM yet (or is still a copy of this shell) is killed: nothing runs that could be drained.
 */
const INIT = `
stop() {
  name= caught=
  while read -r key value; do
    case $key in Name:) name=$value ;; SigCgt:) caught=$value ;; esac
  done </proc/$server/status
  case $name/$caught in
    sh/*) kill -KILL $server ;;
    *[4-7c-f]???) kill -TERM $server ;;
    *) kill -KILL $server ;;
  esac
}
told= server=
trap 'told=1; [ -n "$server" ] && stop' TERM
read -r _ _ _ parent _ </proc/self/fd/9/self/stat
[ "$parent" = "$ROLLOUTD_UNSHARE" ] || exit 137
exec 9<&- 3<&0
outer=$ROLLOUTD_LAUNCHER
unset ROLLOUTD_LAUNCHER ROLLOUTD_UNSHARE ROLLOUTD_NAMESPACE ROLLOUTD_INIT ROLLOUTD_FLAGS ROLLOUTD_REFUSED
ROLLOUTD_PID=$outer env --default-signal=INT,QUIT "$@" <&3 3<&- &
server=$!
exec 3<&- 7<&-
[ -n "$told" ] && kill -KILL $server
while :; do
  wait $server
  code=$?
  kill -0 $server 2>/dev/null && continue
  ${LAST_WORD("server")}
done`;

/** Without one of these root cannot start sandboxes under another uid or look at them. */
const ROOT_CAPABILITIES = [
  [5n, "CAP_KILL"],
  [6n, "CAP_SETGID"],
  [7n, "CAP_SETUID"],
  [19n, "CAP_SYS_PTRACE"],
  [21n, "CAP_SYS_ADMIN"],
] as const;

const REFUSED_TO_USER =
  "let ordinary users make user namespaces (sysctl -w user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1, on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0), or start it as root";
const REFUSED_TO_ROOT = "give the container CAP_SYS_ADMIN, an unmasked /proc and user.max_pid_namespaces above 0";

let inside = false;

/**
 * Call it first in the program, before it reads its arguments: inside the namespace it takes our mark out of
 * `process.argv` and begins to watch the launcher; elsewhere it does nothing.
 */
export function resumeInNamespace(): void {
  const mark = process.argv.indexOf(INSIDE);
  // Given by hand on a machine it is a mistake, and `sweepOrphans` would kill every service there.
  if (mark < 0 || !isOurInit()) return;
  process.argv.splice(mark, 1);
  inside = true;
  endWithLauncher();
}

/**
 * Makes sure that what follows runs inside the namespace: outside it replaces this process by the launcher, which starts
 * the program again, and does not return. Throws with what is missing on this machine.
 * The server must end by `process.exit`: the watch on the launcher's pipe keeps the event loop alive.
 */
export function enterNamespace(): void {
  if (inside) return;
  const isRoot = process.getuid?.() === 0;
  if (isRoot) checkCapabilities();
  for (const program of PROGRAMS) checkProgram(program);
  // A caught signal is the default again after exec; an ignored one (`rolloutd &` in a script) sh could not trap.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});
  const env = {
    ...process.env,
    BUN_CONFIG_MAX_HTTP_REQUESTS: HTTP_REQUESTS_MAX,
    ROLLOUTD_NAMESPACE: NAMESPACE,
    ROLLOUTD_INIT: INIT,
    ROLLOUTD_FLAGS: isRoot ? "" : "--user --map-current-user",
    ROLLOUTD_REFUSED: isRoot ? REFUSED_TO_ROOT : REFUSED_TO_USER,
  };
  const script = ["rolloutd-launcher", "-c", LAUNCHER, "rolloutd-launcher"];
  execve("/bin/sh", [...script, ...ownCommand(), ...process.argv.slice(2), INSIDE], env);
}

/** The pid by which the outside knows the server: that of the launcher. */
export function outerPid(): number {
  return Number(process.env.ROLLOUTD_PID ?? process.pid);
}

/**
 * Kills what a dead bwrap left behind: init's only rightful child is the server, every other one lost its parent.
 * Does nothing outside the namespace. Gives the number of processes killed.
 */
export function sweepOrphans(): number {
  if (!inside) return 0;
  const children = readFileSync("/proc/1/task/1/children", "latin1").split(" ").map(Number);
  const orphans = children.filter((pid) => pid > 0 && pid !== process.pid);
  for (const pid of orphans) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // ESRCH: it ended by itself
    }
  }
  return orphans.length;
}

/** Whether PID 1 runs our INIT: its name stands after `sh -c SCRIPT`. */
function isOurInit(): boolean {
  return readFileSync("/proc/1/cmdline", "utf8").split("\0")[3] === INIT_NAME;
}

function endWithLauncher(): void {
  // A sh that keeps its here-documents in files gives no pipe; the first line then stands alone.
  if (!fstatSync(LIFE_FD).isFIFO()) return;
  makeNonBlocking(LIFE_FD);
  const reader = Bun.file(LIFE_FD).stream().getReader();
  const end = () => process.kill(process.pid, "SIGKILL");
  const look = (): Promise<unknown> => reader.read().then(({ done }) => (done ? end() : look()), end);
  void look(); // ends with the process
}

function ownCommand(): string[] {
  const script = process.argv[1];
  const isCompiled = script === undefined || script.startsWith("/$bunfs/");
  return isCompiled ? [process.execPath] : [process.execPath, ...process.execArgv, script];
}

function checkCapabilities(): void {
  const held = /^CapEff:\s*(\w+)/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1] ?? "0";
  for (const [bit, name] of ROOT_CAPABILITIES) {
    if (((BigInt(`0x${held}`) >> bit) & 1n) === 1n) continue;
    throw new Error(`started by root without ${name}: start it as an ordinary user, or give the container ${name}`);
  }
}

function checkProgram(path: string): void {
  try {
    accessSync(path, constants.X_OK);
  } catch {
    throw new Error(`${path} is missing; on Debian and Ubuntu: apt-get install util-linux coreutils`);
  }
}

function execve(file: string, argv: readonly string[], env: Readonly<Record<string, string | undefined>>): void {
  if (process.execve === undefined) throw new Error("this Bun has no process.execve; 1.4.4 or newer is needed");
  const defined = Object.entries(env).filter(([, value]) => value !== undefined);
  process.execve(file, [...argv], Object.fromEntries(defined) as Record<string, string>);
}
