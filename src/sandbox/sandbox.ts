import type { ImageInfo } from "./image.ts";

/** The port to a confined place. The only implementation starts bubblewrap; graders and agents see no more than this. */

export interface SandboxLimits {
  memoryBytes: number;
  diskBytes: number;
  pidsMax: number;
}

export interface SandboxFile {
  /** Absolute inside the sandbox. */
  path: string;
  bytes: Uint8Array;
  /** Permission bits; 0o644 when absent. */
  mode?: number;
}

export interface SandboxOptions {
  image: string;
  limits: SandboxLimits;
  files?: readonly SandboxFile[];
  /** Working directory, made if missing. `/workspace` when absent. */
  cwd?: string;
}

/** How a command ended, as separate facts: nothing is folded into an exit code. */
export interface CommandResult {
  /** Head and tail of stdout and stderr in order of arrival, at most `outputBytesMax` bytes, decoded as UTF-8. */
  output: string;
  /** All bytes the command wrote, also those left out of `output`. */
  outputBytes: number;
  truncated: boolean;
  exitCode: number | null;
  timedOut: boolean;
  /** What the time-out ladder or a restart did, or why nothing was run, in words for the model; null when nothing happened. */
  note: string | null;
  ms: number;
}

/**
 * Why the sandbox is no longer there. `limit`: the agent's doing (it brought PID 1 down, flooded PID 1's own pipe, or left
 * no room to start its session again). `lost`: bwrap was killed from outside, which an agent cannot do.
 */
export type SandboxEnd = "closed" | "limit" | "lost";

/** A sandbox with a shell and a Python worker that live as long as it does. Calls are answered one at a time. */
export interface Sandbox extends AsyncDisposable {
  readonly id: string;
  /** Resolves once when the last process is gone; never rejects. */
  readonly ended: Promise<SandboxEnd>;
  /** Runs `command` in the persistent bash with an empty stdin. Throws RolloutError sandbox_lost | sandbox_limit. */
  shell(command: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult>;
  /** Runs a notebook cell in the persistent Python worker, which is started at the first call. */
  python(code: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<CommandResult>;
  writeFile(file: SandboxFile, signal: AbortSignal): Promise<void>;
  /** Regular files only, never outside the sandbox; null when there is none. Throws when over `bytesMax`. */
  readFile(path: string, bytesMax: number): Promise<Uint8Array | null>;
  /** Kills every process of the agent; files can still be read until `close`. Resolves when they are gone. */
  killProcesses(): Promise<void>;
  /** Kills everything and resolves when the last process is gone. Safe to call twice. */
  close(): Promise<void>;
}

/**
 * One program in a sandbox of its own: for graders and candidates. stdout is read by the server as lines or to the
 * end; there is no shell between.
 */
export interface SandboxProgram extends AsyncDisposable {
  readonly ended: Promise<SandboxEnd>;
  /** Writes to the program's stdin; resolves when the kernel took it. */
  write(bytes: Uint8Array | string): Promise<void>;
  closeStdin(): void;
  /** The next line of stdout without its newline; null at the end. Throws RolloutError sandbox_limit over `lineBytesMax`. */
  readLine(signal: AbortSignal): Promise<string | null>;
  /** Waits for the end. stdout and stderr are bounded by LIMITS.outputBytesMax each, head kept. */
  wait(signal: AbortSignal): Promise<ProgramResult>;
  close(): Promise<void>;
}

export interface ProgramResult {
  stdout: string;
  stderr: string;
  stdoutTruncated: boolean;
  /** Null when a signal ended it. */
  exitCode: number | null;
  signal: string | null;
  ms: number;
}

export interface ProgramOptions extends SandboxOptions {
  argv: readonly string[];
  env?: Readonly<Record<string, string>>;
}

/** Starts sandboxes. `open` rejects with RolloutError image_missing | sandbox_lost and leaves nothing behind. */
export interface SandboxHost {
  open(options: SandboxOptions, signal: AbortSignal): Promise<Sandbox>;
  start(options: ProgramOptions, signal: AbortSignal): Promise<SandboxProgram>;
  /** Names of images that `open` accepts, with the id each has now. */
  images(): readonly ImageInfo[];
  /** Live sandboxes now. */
  readonly live: number;
  /** Kills all that still live and resolves when they are gone. */
  close(): Promise<void>;
}
