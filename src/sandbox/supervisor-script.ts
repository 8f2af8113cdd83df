/**
 * What runs as PID 1 of a sandbox, in /bin/sh. PID 1 must survive whatever the agent does to its own session
 * (`exit`, `exec`, `kill -9 -1`) and reap orphans, so it only waits for a control loop and starts it again when
 * it is killed. The control loop starts the shell or the Python worker when the server asks, and tells how they end.
 */

/** Descriptors of a session sandbox beside 0 (control in), 1 and 2 (control out). */
export const SESSION_FDS = {
  shellIn: 5,
  shellOut: 6,
  pythonIn: 7,
  pythonOut: 8,
  terminalIn: 9,
  terminalOut: 10,
} as const;
/** Descriptors of a program sandbox beside its own 0, 1, 2. */
export const PROGRAM_FDS = { controlIn: 5, controlOut: 6 } as const;

export const PYTHON_WORKER_PATH = "/run/python-worker.py";

/** A pseudo-terminal of the sandbox's own with bash on it, by whichever the image has. Written without single quotes. */
const TERMINAL_SCRIPT = `
export SHELL=/bin/sh PS1= PS2=
bash="/bin/bash --norc --noprofile --noediting -i"
if command -v script >/dev/null; then exec script -qfec "exec $bash" /dev/null; fi
exec python3 -c "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))" $bash`;

/**
 * Background children of sh ignore INT for good, hence `env --default-signal`. The double parentheses hand each
 * session to PID 1, which reaps it; the control loop would keep a zombie for every restart. Pipes are opened by their
 * path, since sh has no word for a descriptor of two digits; sessions close 10 themselves for the same reason.
 */
const SESSION_SCRIPT = `
start() {
  end=$1 mark=$2 in=/proc/self/fd/$3 out=/proc/self/fd/$4; shift 4
  ( (
    printf '\\n\\036%s\\036' "$mark" >"$out"
    cd "$cwd" || cd /
    env --default-signal=INT,QUIT "$@" <"$in" >"$out" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
    echo "$end $mark $?"
  ) & )
}
cwd=$1
while :; do
  (
    echo up
    while read -r name mark; do
      case $name in
      shell) PS1= PS2= start shell "$mark" 5 6 /bin/bash --norc --noprofile --noediting -i ;;
      python) start python "$mark" 7 8 python3 -u ${PYTHON_WORKER_PATH} ;;
      terminal) start terminal "$mark" 9 10 /bin/sh -c '${TERMINAL_SCRIPT}' ;;
      esac
    done
    exit 0
  ) && exit 0
done`;

/** PID 1 of a sandbox with sessions that start in `cwd`. It ends when the server's end of the control pipe closes. */
export function sessionCommand(cwd: string): string[] {
  return ["/bin/sh", "-c", SESSION_SCRIPT, "supervisor", cwd];
}

/** The program is a child of PID 1: as PID 1 itself it would ignore its own signals, such as that of abort(). */
const PROGRAM_SCRIPT = `
echo up >&6
read -r go <&5 || exit 125
cd "$1" || exit 126
shift
"$@" 5>&- 6>&-`;

/** PID 1 that waits for one control line, then runs `argv` in `cwd` and ends with its exit code. */
export function programCommand(cwd: string, argv: readonly string[]): string[] {
  return ["/bin/sh", "-c", PROGRAM_SCRIPT, "supervisor", cwd, ...argv];
}
