import { performance } from "node:perf_hooks";

const COMMAND_MS_MAX = 300_000;
const ERROR_CHARS_MAX = 2_000;

export interface CommandOptions {
  cwd?: string;
  env?: Record<string, string>;
  /** Killed after this long; 5 minutes unless said otherwise. */
  msMax?: number;
}

/** Runs a set-up command to its end and gives its stdout. Throws with the end of its stderr when it fails. */
export async function runCommand(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const child = Bun.spawn([...argv], {
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    env: { ...process.env, ...options.env },
    stdin: "ignore",
    stdout: "pipe",
    stderr: "pipe",
    timeout: options.msMax ?? COMMAND_MS_MAX,
    killSignal: "SIGKILL",
  });
  const [stdout, stderr, code] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  if (code === 0) return stdout;
  throw new Error(`${argv.join(" ")} ended with ${code}:\n${(stderr || stdout).slice(-ERROR_CHARS_MAX)}`);
}

/** Ends the script with exit code 1. Says the error's message without a stack: it is for whoever must act on it. */
export function exitWithMessage(error: unknown): never {
  console.error(error instanceof Error ? error.message : String(error));
  process.exit(1);
}

/** Runs `work` as the step `name` and reports it with its time, also when it fails. */
export async function step<T>(name: string, report: (line: string) => void, work: () => Promise<T>): Promise<T> {
  const start = performance.now();
  try {
    const value = await work();
    report(`${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    return value;
  } catch (error) {
    report(`${name}: failed (${((performance.now() - start) / 1000).toFixed(1)} s)`);
    throw error;
  }
}
